"""Exact match and accuracy, and Wilson's interval around them."""

from math import sqrt

import numpy as np
import pytest

from plugformer.interfaces import Metric
from plugformer_plugins.metric.accuracy import Accuracy, ExactMatch


@pytest.mark.parametrize("metric", [Accuracy(), ExactMatch()])
def test_hits_are_counted_against_any_reference(metric: Metric) -> None:
    statistics = metric.statistics(["a", "b", "a ", ""], [["a"], ["c", "b"], ["a"], ["x", "y"]])
    assert statistics.tolist() == [[1.0], [1.0], [0.0], [0.0]]
    assert metric.aggregate(statistics) == 0.5


def wilson(hits: int, count: int) -> tuple[float, float]:
    """Wilson (1927), as in Brown, Cai and DasGupta (2001), equation 4, for 95 %."""
    z = 1.959963984540054
    share = hits / count
    center = (hits + z**2 / 2) / (count + z**2)
    half = z * sqrt(count) / (count + z**2) * sqrt(share * (1 - share) + z**2 / (4 * count))
    return center - half, center + half


@pytest.mark.parametrize(
    ("hits", "count"), [(0, 1), (1, 1), (3, 10), (0, 2500), (2500, 2500), (2499, 2500), (906, 1000)]
)
def test_intervals_are_wilsons(hits: int, count: int) -> None:
    metric = Accuracy()
    statistics = np.array([[1.0]] * hits + [[0.0]] * (count - hits))
    low, high = metric.interval(statistics)
    assert (low, high) == pytest.approx(wilson(hits, count), abs=1e-12)
    assert 0 <= low <= metric.aggregate(statistics) <= high <= 1
    assert low < high
