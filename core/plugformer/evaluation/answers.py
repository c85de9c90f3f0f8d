"""What a model has answered to the examples of a split, as metrics of outputs read it."""

from collections.abc import Sequence
from typing import NamedTuple

from jaxtyping import Float
from numpy import ndarray

from plugformer.data.encoding import EncodedSplit
from plugformer.evaluation.offline import Measured, measure, measure_with_sources
from plugformer.interfaces import OutputMetric, Prediction, SourceMetric
from plugformer.interfaces.prediction import Value


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

    def statistics(self, metric: OutputMetric | SourceMetric) -> Float[ndarray, "examples statistics"]:
        """Returns a metric's statistics of each example."""
        if isinstance(metric, SourceMetric):
            return metric.statistics(*self)
        return metric.statistics(self.predictions, self.references)

    def measure(self, metric: OutputMetric | SourceMetric) -> Measured:
        """Returns a metric's score, and what it is made of.

        Raises:
            DataError: There is no example.
        """
        if isinstance(metric, SourceMetric):
            return measure_with_sources(metric, *self)
        return measure(metric, self.predictions, self.references)
