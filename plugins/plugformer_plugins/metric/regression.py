"""Metrics of predicted numbers."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from plugformer.interfaces import OutputMetric, OutputType


class NumberMetric(OutputMetric):
    """A metric that compares predicted numbers with the right ones."""

    accepts = frozenset({OutputType.NUMBER})

    def statistics(
        self, predictions: Sequence[float], references: Sequence[Sequence[float]]
    ) -> Float[ndarray, "examples 2"]:
        """Returns each predicted number and the right one."""
        return np.array(
            [[given, right[0]] for given, right in zip(predictions, references, strict=True)], float
        ).reshape(-1, 2)


class MeanSquaredError(NumberMetric):
    """The mean of the squared differences; lower is better."""

    higher_is_better = False

    def aggregate(self, statistics: Float[ndarray, "examples 2"]) -> float:
        """Returns the mean."""
        predicted, right = statistics.T
        return float(((predicted - right) ** 2).mean())


class Pearson(NumberMetric):
    """Pearson's r, from -1 to 1; 0 where either numbers are all the same, of which it is not defined."""

    def aggregate(self, statistics: Float[ndarray, "examples 2"]) -> float:
        """Returns the correlation."""
        if (statistics == statistics[0]).all(axis=0).any():  # rounded, their mean may be another number
            return 0.0
        predicted, right = (statistics - statistics.mean(axis=0)).T
        scale = np.sqrt((predicted**2).sum() * (right**2).sum())
        return float((predicted * right).sum() / scale) if scale > 0 else 0.0


class Spearman(Pearson):
    """Spearman's rho: Pearson's r of ranks; equal numbers share their mean rank."""

    def aggregate(self, statistics: Float[ndarray, "examples 2"]) -> float:
        """Returns the correlation."""
        from scipy.stats import rankdata  # slow to import, needed only when scores are computed

        return super().aggregate(rankdata(statistics, axis=0))
