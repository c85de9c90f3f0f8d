"""What a metric may return: anything else is an error that names the metric and the value."""

import math

import numpy as np
import pytest

from plugformer.errors import DataError, RegistryError
from plugformer.evaluation.evaluator import aggregated, measure
from plugformer.interfaces import OutputMetric
from plugformer_plugins.metric.accuracy import ExactMatch

ROWS = np.array([[0.0], [1.0], [1.0]])
GIVEN = ["a", "b", "b"], [["b"], ["b"], ["b"]]


class Returning(OutputMetric):
    """Returns what it is told to."""

    def __init__(self, value=0.5, rows=ROWS):
        self.value, self.rows = value, rows

    def statistics(self, predictions, references):
        return self.rows

    def aggregate(self, statistics):
        return self.value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (math.nan, "nan"),
        (None, "None"),
        (np.ones(3), "array"),
    ],
)
def test_an_aggregate_is_one_finite_number(value, words):
    for score in (measure, aggregated):
        with pytest.raises(RegistryError, match=f"metric Returning: .*{words}"):
            score(Returning(value), *GIVEN)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (None, "object"),
        (np.array([[0.0], [1.0]]), "each of 3 examples"),
    ],
)
def test_statistics_are_numbers_for_each_example(rows, words):
    with pytest.raises(RegistryError, match=f"metric Returning: .*{words}"):
        measure(Returning(rows=rows), *GIVEN)


def test_no_example_is_an_error():
    with pytest.raises(DataError, match="ExactMatch: there are 0 examples to score"):
        measure(ExactMatch(), [], [])


class Mean(Returning):
    """Aggregates to the mean, and has no interval of its own."""

    def aggregate(self, statistics):
        return float(statistics.mean())


def test_a_metric_without_an_interval_of_its_own_is_resampled():
    result = measure(Mean(rows=np.array([[1.0], [3.0]] * 50)), ["a"] * 100, [["a"]] * 100)[0]
    # Standard error 0.1: the percentile interval is about 2 +- 1.96 * 0.1.
    assert result == pytest.approx({"value": 2.0, "low": 1.8, "high": 2.2}, abs=0.03)
