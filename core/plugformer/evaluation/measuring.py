"""Scores: what metrics make of a model's answers, or of the probability of the right ones."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from plugformer.data.encoding import EncodedSplit
from plugformer.errors import DataError
from plugformer.evaluation.report import Score, scored
from plugformer.interfaces import LikelihoodMetric, OutputMetric, Prediction, SourceMetric
from plugformer.interfaces.prediction import Value


class Measured(NamedTuple):
    """A score, and each example's statistics that it is the aggregate of."""

    score: Score
    statistics: Float[ndarray, "examples statistics"]


def measure(metric: OutputMetric | SourceMetric | LikelihoodMetric, *given: Any) -> Measured:
    """Returns a metric's score, and what it is made of.

    Args:
        metric: The metric.
        *given: What the `statistics` of its family take: columns of one length, the number of examples.

    Raises:
        DataError: There is no example.
    """
    if not len(given[0]):
        raise DataError(
            f"{type(metric).__name__}: there are 0 examples to score, expected at least 1; "
            "check the split and evaluation.limit"
        )
    statistics = np.asarray(metric.statistics(*given))
    if isinstance(metric, OutputMetric):
        return Measured(
            scored(metric, statistics, metric.signature(given[1]), metric.table(*given)), statistics
        )
    table = metric.table(*given) if isinstance(metric, SourceMetric) else None
    return Measured(scored(metric, statistics, table=table), statistics)


class Answers(NamedTuple):
    """Inputs, answers and right answers, example by example; see `SourceMetric.statistics`."""

    sources: list[str]
    predictions: list[Value]
    references: list[list[Value]]

    @classmethod
    def to(cls, split: EncodedSplit, rows: Sequence[int], predictions: Sequence[Prediction]) -> "Answers":
        """Returns what was answered to some examples of a split."""
        return cls(
            [split.input(row) for row in rows],
            [prediction.output for prediction in predictions],
            [split.references(row) for row in rows],
        )

    def columns(self, metric: OutputMetric | SourceMetric) -> tuple[list[Any], ...]:
        """Returns what a metric's `statistics` take."""
        return tuple(self) if isinstance(metric, SourceMetric) else (self.predictions, self.references)
