"""What metrics have in common that count hits: the share of hits, with Wilson's interval."""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from plugformer.interfaces import OutputMetric


class Proportion(OutputMetric):
    """The share of examples that are right, one statistic each: 1 for a hit, 0 for a miss."""

    @abstractmethod
    def hit(self, prediction: str, references: Sequence[str]) -> bool:
        """Returns whether a prediction is right."""

    def statistics(
        self, predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Float[ndarray, "examples 1"]:
        """Returns 1 or 0 for each example."""
        pairs = zip(predictions, references, strict=True)
        return np.array([[float(self.hit(prediction, answers))] for prediction, answers in pairs]).reshape(
            -1, 1
        )

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
