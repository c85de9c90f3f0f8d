"""What a metric may return: anything else is an error that names the metric and the value."""

import math

import numpy as np
import pytest

from plugformer.errors import RegistryError
from plugformer.evaluation.evaluator import aggregated, measure
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
        (np.array([[0.0], [math.nan], [1.0]]), "example 2 .*nan"),
        (np.array([[0.0], [1.0]]), "each of 3 examples"),
    ],
)
def test_statistics_are_finite_numbers_for_each_example(rows, words):
    with pytest.raises(RegistryError, match=f"metric Returning: .*{words}"):
        measure(Returning(rows=rows), *GIVEN)
