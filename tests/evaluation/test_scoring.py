"""What a metric may return: anything else is an error that names the metric and the value."""

import math

import numpy as np
import pytest

from plugformer.errors import RegistryError
from plugformer.evaluation import measure
from plugformer.evaluation.evaluator import aggregated
from plugformer.interfaces import OutputMetric

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
        (math.inf, "inf"),
        (None, "None"),
        ("good", "good"),
        (True, "True"),
        (np.ones(3), "ndarray"),
        (1j, "complex"),
    ],
)
def test_an_aggregate_is_one_finite_number(value, words):
    for score in (measure, aggregated):
        with pytest.raises(RegistryError, match=f"metric Returning: .*{words}"):
            score(Returning(value), *GIVEN)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (None, "None"),
        (np.array([[0.0], [math.nan], [1.0]]), "example 2 .*nan"),
        (np.array([[0.0], [1.0]]), "3 examples have 2 rows"),
        (np.array([[0.0]] * 4), "3 examples have 4 rows"),
        (np.array([["a"]] * 3), "ndarray"),
        ([[1.0], [1.0, 2.0], [1.0]], "list"),
        (np.array([[1j]] * 3), "ndarray"),
        (np.float64(1.0), "1.0"),
    ],
)
def test_statistics_are_finite_numbers_for_each_example(rows, words):
    with pytest.raises(RegistryError, match=f"metric Returning: .*{words}"):
        measure(Returning(rows=rows), *GIVEN)


@pytest.mark.filterwarnings("ignore:The BCa confidence interval")  # SciPy's own, about the same
def test_an_interval_is_finite_in_every_resample():
    class Undefined(Returning):
        def aggregate(self, statistics):
            return math.nan if (statistics == statistics[0]).all() else 0.5

    with pytest.raises(RegistryError, match="metric Undefined: an end of the interval is nan"):
        measure(Undefined(), *GIVEN)


def test_whole_numbers_and_those_of_numpy_are_numbers():
    for value in (1, np.float32(0.5), np.int64(3)):
        found = measure(Returning(value), *GIVEN)[0]["value"]
        assert type(found) is float
        assert found == value
