"""Metrics of predicted numbers."""

from abc import abstractmethod
from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from plugformer.interfaces import OutputMetric, OutputType
from plugformer_plugins.metric.accuracy import Ratio


class NumberMetric(Ratio, OutputMetric):
    """The mean error of predicted numbers, or of all numbers of lists; lower is better."""

    accepts = frozenset({OutputType.NUMBER, OutputType.NUMBERS})
    higher_is_better = False

    @abstractmethod
    def errors(self, differences: Float[ndarray, " numbers"]) -> Float[ndarray, " numbers"]:
        """Returns the errors of predicted numbers that differ so much from the right ones."""

    def statistics(
        self,
        predictions: Sequence[float | Sequence[float]],
        references: Sequence[Sequence[float | Sequence[float]]],
    ) -> Float[ndarray, "examples 2"]:
        """Returns the sum of each example's errors, and the number of its numbers.

        A number that is predicted for no word, or not predicted for one, is an error of its own size.
        """
        rows = []
        for given, right in zip(predictions, references, strict=True):
            pairs = zip_longest(np.atleast_1d(given), np.atleast_1d(np.asarray(right[0])), fillvalue=0.0)
            differences = np.array([one - other for one, other in pairs], float)
            rows.append([self.errors(differences).sum(), len(differences)])
        return np.array(rows, float).reshape(-1, 2)


class MeanSquaredError(NumberMetric):
    """The mean of the squared differences; lower is better.

    See https://scikit-learn.org/stable/modules/model_evaluation.html#mean-squared-error.
    """

    def errors(self, differences: Float[ndarray, " numbers"]) -> Float[ndarray, " numbers"]:
        """Returns the squares."""
        return differences**2


class RootMeanSquaredError(MeanSquaredError):
    """The square root of the mean squared error, in the unit of the numbers; lower is better.

    See https://doi.org/10.3354/cr030079.
    """

    def aggregate(self, statistics: Float[ndarray, "examples 2"]) -> float:
        """Returns the root of the mean."""
        return float(np.sqrt(super().aggregate(statistics)))


class MeanAbsoluteError(NumberMetric):
    """The mean of the absolute differences, in the unit of the numbers; lower is better.

    See https://doi.org/10.3354/cr030079.
    """

    def errors(self, differences: Float[ndarray, " numbers"]) -> Float[ndarray, " numbers"]:
        """Returns the absolute values."""
        errors: ndarray = np.abs(differences)
        return errors


class Pearson(OutputMetric):
    """Correlation of predicted numbers with the right ones.

    Pearson's r, from -1 to 1; 0 if all predictions or all targets are equal, where it is undefined.
    See https://aclanthology.org/S14-2001.
    """

    accepts = frozenset({OutputType.NUMBER})

    def statistics(
        self, predictions: Sequence[float], references: Sequence[Sequence[float]]
    ) -> Float[ndarray, "examples 2"]:
        """Returns each predicted number and the right one."""
        return np.array(
            [[given, right[0]] for given, right in zip(predictions, references, strict=True)], float
        ).reshape(-1, 2)

    def aggregate(self, statistics: Float[ndarray, "examples 2"]) -> float:
        """Returns the correlation."""
        if (statistics == statistics[0]).all(axis=0).any():  # rounded, their mean may be another number
            return 0.0
        predicted, right = (statistics - statistics.mean(axis=0)).T
        scale = np.sqrt((predicted**2).sum() * (right**2).sum())
        return float((predicted * right).sum() / scale) if scale > 0 else 0.0


class Spearman(Pearson):
    """Correlation of the ranks of predicted numbers with those of the right ones.

    Spearman's rho: Pearson's r of ranks; equal numbers share their mean rank.
    See https://aclanthology.org/S14-2001.
    """

    def aggregate(self, statistics: Float[ndarray, "examples 2"]) -> float:
        """Returns the correlation."""
        from scipy.stats import rankdata  # slow to import, needed only when scores are computed

        return super().aggregate(rankdata(statistics, axis=0))
