"""What metrics have in common that count hits: the share of hits, with Wilson's interval."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from plugformer.interfaces import OutputMetric, SourceMetric


class Hits:
    """The share of hits among examples of one statistic each: 1 for a hit, 0 for a miss."""

    def aggregate(self, statistics: Float[ndarray, "examples 1"]) -> float:
        """Returns the share of hits."""
        return float(statistics.mean())

    def interval(self, statistics: Float[ndarray, "examples 1"], level: float = 0.95) -> tuple[float, float]:
        """Returns Wilson's score interval, sane for few examples and for shares of 0 and 1.

        Wilson (1927), https://doi.org/10.1080/01621459.1927.10502953, from scipy.
        """
        from scipy.stats import binomtest  # slow to import, needed only when scores are computed

        result = binomtest(int(statistics.sum()), len(statistics))
        ends = result.proportion_ci(confidence_level=level, method="wilson")
        return float(ends.low), float(ends.high)


class Proportion(Hits, OutputMetric):
    """The share of examples that are right."""

    def hit(self, prediction: str, references: Sequence[str]) -> bool:
        """Returns whether a prediction is right: whether it is one of the references."""
        return prediction in references

    def statistics(
        self, predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Float[ndarray, "examples 1"]:
        """Returns 1 or 0 for each example."""
        return _column(self.hit(*pair) for pair in zip(predictions, references, strict=True))


class SourceProportion(Hits, SourceMetric):
    """The share of examples whose output fits its source, whatever the references are."""

    @abstractmethod
    def hit(self, source: str, prediction: str) -> bool:
        """Returns whether a prediction fits."""

    def statistics(
        self, sources: Sequence[str], predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Float[ndarray, "examples 1"]:
        """Returns 1 or 0 for each example."""
        return _column(self.hit(*pair) for pair in zip(sources, predictions, strict=True))


def _column(hits: Iterable[bool]) -> Float[ndarray, "examples 1"]:
    return np.array([[float(hit)] for hit in hits]).reshape(-1, 1)
