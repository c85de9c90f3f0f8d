"""Correlations of predicted numbers with the right ones."""

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from plugformer_plugins.metric.numbers import NumberMetric


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
