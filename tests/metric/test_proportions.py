"""Exact match and accuracy, and Wilson's interval around them."""

import numpy as np
import pytest
from scipy.stats import binomtest

from plugformer.interfaces import Metric
from plugformer_plugins.metric.accuracy import Accuracy, ExactMatch


@pytest.mark.parametrize("metric", [Accuracy(), ExactMatch()])
def test_hits_are_counted_against_any_reference(metric: Metric) -> None:
    statistics = metric.statistics(["a", "b", "a ", ""], [["a"], ["c", "b"], ["a"], ["x", "y"]])
    assert statistics.tolist() == [[1.0], [1.0], [0.0], [0.0]]
    assert metric.aggregate(statistics) == 0.5


@pytest.mark.parametrize(
    ("hits", "count"), [(0, 1), (1, 1), (3, 10), (0, 2500), (2500, 2500), (2499, 2500), (906, 1000)]
)
def test_intervals_are_wilsons(hits: int, count: int) -> None:
    metric = Accuracy()
    statistics = np.array([[1.0]] * hits + [[0.0]] * (count - hits))
    low, high = metric.interval(statistics)
    wilson = binomtest(hits, count).proportion_ci(method="wilson")
    assert (low, high) == pytest.approx((wilson.low, wilson.high), abs=1e-12)
    assert 0 <= low <= metric.aggregate(statistics) <= high <= 1
    assert low < high
