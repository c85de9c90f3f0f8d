"""Paired bootstrap over test examples, for metrics of any kind."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from plugformer.ablation.statistics.student import StudentT

Aggregate = Callable[[Float[ndarray, "examples statistics"]], float]
"""The score of a set of examples, from statistics of each."""

RESAMPLES = 2000
_PER_COMPARISON = 200  # resamples: ten lie beyond a level of 5 % that is divided by the comparisons
_AT_ONCE = 50  # resamples whose rows are in memory


def resamples_for(comparisons: int) -> int:
    """Returns how many resamples a study needs so that corrected levels are still resolved."""
    return max(RESAMPLES, _PER_COMPARISON * comparisons)


def resampled(
    cells: Sequence[Float[ndarray, "examples statistics"]],
    aggregate: Aggregate,
    resamples: int,
    seed: int = 0,
) -> Float[ndarray, "cells resamples"]:
    """Returns each cell's score on test sets drawn from the examples with replacement.

    All cells are scored on the same draws, which pairs them. Statistics of different cells are never mixed: a
    mean of counts of n-grams, or of numbers of classes, would mean nothing.

    Args:
        cells: Statistics of the same examples for each cell.
        aggregate: The metric.
        resamples: Number of draws.
        seed: Of the draws.
    """
    from scipy.stats import bootstrap

    def scores(rows: ndarray, axis: int = -1) -> ndarray:  # noqa: ARG001 (scipy's signature)
        draws = rows.reshape(-1, rows.shape[-1])
        found = np.array([[aggregate(statistics[draw]) for draw in draws] for statistics in cells])
        return found.reshape(len(cells), *rows.shape[:-1])

    result = bootstrap(
        (np.arange(len(cells[0])),),
        scores,
        n_resamples=resamples,
        batch=_AT_ONCE,
        vectorized=True,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    found: Float[ndarray, "cells resamples"] = result.bootstrap_distribution
    return found


@dataclass(frozen=True)
class Bootstrap:
    """A difference of scores, and how far it moves on other test sets.

    Koehn (2004), https://aclanthology.org/W04-3250, with the symmetric interval of Hall, On symmetric
    bootstrap confidence intervals (1988): it excludes 0 exactly where `p` is not above what its level leaves.

    Attributes:
        difference: On the test set itself.
        deviations: How far resamples' differences lie from it.
        examples: Number of test examples.
    """

    difference: float
    deviations: Float[ndarray, " resamples"]
    examples: int

    @property
    def p(self) -> float:
        """The share of resamples that lie at least as far from the difference as it lies from 0."""
        # The difference itself counts as a resample: no p is 0. Equal deviations may differ in last digits.
        beyond = self.deviations >= abs(self.difference) * (1 - 1e-9)
        return float((1 + beyond.sum()) / (1 + len(beyond)))

    def interval(self, level: float) -> tuple[float, float]:
        """Returns a confidence interval of the difference.

        Args:
            level: Its coverage, as 0.95.
        """
        reach = float(np.quantile(np.append(self.deviations, np.inf), level, method="inverted_cdf"))
        return self.difference - reach, self.difference + reach

    @property
    def student(self) -> StudentT:
        """The same difference with the bootstrap's standard error, as if it were normal."""
        return StudentT(
            self.difference, float(np.sqrt(np.mean(self.deviations**2))), float(max(self.examples - 1, 1))
        )
