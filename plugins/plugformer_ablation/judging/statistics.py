"""Means with their errors: Student's t, and resampled test sets. Knows neither studies nor files."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from math import hypot
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

POWER = 0.8
"""At which detectable differences are given, by convention: Cohen (1988), page 56."""

RESAMPLES = 2000
"""They give a standard error to within 2 %."""

_TRIED = 10
"""Draws that tell whether a metric is a mean over examples."""

_SMALLEST_P = 1e-12

_LARGEST_CRITICAL = 1e4
"""Above it, the distribution function of the noncentral t fails, and its limit is exact to 0.1 %."""

Interval = tuple[float, float]
"""Its lower and its upper end."""

Aggregate = Callable[[Float[ndarray, "examples statistics"]], float]
"""The score of a set of examples, from statistics of each."""


def resampled(
    cells: Sequence[Float[ndarray, "examples statistics"]],
    aggregate: Aggregate,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Float[ndarray, "cells resamples"]:
    """Returns each cell's score on test sets drawn from the examples with replacement.

    All cells are scored on the same draws, which pairs them. Statistics of different cells are never mixed: a
    mean of counts of n-grams, or of numbers of classes, would mean nothing. A metric that is a mean over
    examples, as the first draws show, is computed for all cells at once.
    """
    generator, examples = np.random.default_rng(seed), len(cells[0])
    draws = (generator.integers(examples, size=examples) for _ in range(resamples))
    first = list(islice(draws, _TRIED))
    scores = [[aggregate(cell.take(draw, axis=0)) for cell in cells] for draw in first]
    if {cell.shape[1] for cell in cells} == {1}:
        rows = np.ascontiguousarray(np.hstack(cells).T)
        if np.array_equal(scores, [rows.take(draw, axis=1).mean(axis=1) for draw in first]):
            return np.array([*scores, *(rows.take(draw, axis=1).mean(axis=1) for draw in draws)]).T
    scores += [[aggregate(cell.take(draw, axis=0)) for cell in cells] for draw in draws]
    return np.array(scores).T


@dataclass(frozen=True)
class StudentT:
    """A mean with an estimated standard error; Student (1908), https://doi.org/10.2307/2331554.

    Where two independent sources of variation blur it, the squares of their margins add up: Zou and Donner
    (2008), https://doi.org/10.1002/sim.3095. So the margin is never smaller than that of either, and a source
    that is known from a few values is not taken to be known well because the other is.

    Attributes:
        mean: The mean, usually of differences.
        error: Its standard error; 0 where nothing varied.
        freedom: Degrees of freedom of the error.
        other: The same mean with the error from the other source, if there is one.
    """

    mean: float
    error: float
    freedom: float
    other: "StudentT | None" = None

    @classmethod
    def of(cls, values: Float[ndarray, " values"]) -> "StudentT":
        """Returns the mean of at least two values; of paired differences this is the paired t test."""
        error = values.std(ddof=1) / np.sqrt(len(values))
        return cls(float(values.mean()), float(error), float(len(values) - 1))

    @property
    def total_error(self) -> float:
        """The standard error from both sources: variances add."""
        return hypot(*(source.error for source in self._sources))

    @property
    def p(self) -> float:
        """The probability, were the true mean 0, of one at least as large to either side.

        With two sources it is the alpha at which the interval begins to exclude 0.
        """
        from scipy.optimize import brentq
        from scipy.special import stdtr

        reach = abs(self.mean)
        if self.margin(_SMALLEST_P) <= reach and (self.other or not self.error):
            return 0.0 if reach else 1.0
        if self.other is None:
            return float(2 * stdtr(self.freedom, -reach / self.error))
        return float(brentq(lambda alpha: self.margin(alpha) - reach, _SMALLEST_P, 1.0))

    def margin(self, alpha: float) -> float:
        """Returns half the width of the interval at a level of 1 - alpha."""
        from scipy.special import stdtrit

        sources = (source for source in self._sources if source.error)
        return hypot(*(source.error * -stdtrit(source.freedom, alpha / 2) for source in sources))

    def interval(self, level: float) -> Interval:
        """Returns a confidence interval of the mean, which excludes 0 exactly where p < 1 - level."""
        margin = self.margin(1 - level)
        return self.mean - margin, self.mean + margin

    def detectable_difference(self, alpha: float) -> float:
        """Returns the smallest true difference that is found with a power of 80 %.

        Found means that the interval excludes 0 on the right side; an error of 0 gives 0. `alpha` is the
        two-sided significance level.
        """
        sources = (source for source in self._sources if source.error)
        return hypot(*(source.error * _shift(source.freedom, alpha) for source in sources))

    @property
    def _sources(self) -> tuple["StudentT", ...]:
        return (self,) if self.other is None else (self, self.other)


@cache  # the same for all comparisons of a study, and slow for few degrees of freedom
def _shift(freedom: float, alpha: float) -> float:
    """Returns the true mean, in standard errors, that is found with a power of 80 %."""
    from scipy.optimize import brentq
    from scipy.special import chdtri, nctdtr, stdtrit  # scipy.stats takes longer to import than all else

    critical = float(-stdtrit(freedom, alpha / 2))
    if critical > _LARGEST_CRITICAL:  # the deviation alone decides: a normal variate is small beside it
        return critical * float(np.sqrt(chdtri(freedom, 1 - POWER) / freedom))
    largest = 10 + 1.5 * critical  # the power there is at least 0.86, that of 1 degree of freedom
    return float(brentq(lambda shift: 1 - nctdtr(freedom, shift, critical) - POWER, 0, largest))


def summarize(scores: Iterable[float]) -> dict[str, Any] | None:
    """Returns of scores `mean`, `deviation`, `low` and `high`, and `seeds`, their number.

    `low` and `high` are the t interval of the mean at 95 %; of a single score they and the deviation are
    None. None if there are no scores, or one is not finite: the mean of the others would be too good.
    """
    values = np.array([*scores])
    if not len(values) or not np.isfinite(values).all():
        return None
    several = len(values) > 1
    low, high = StudentT.of(values).interval(0.95) if several else (None, None)
    return {
        "mean": float(values.mean()),
        "deviation": float(values.std(ddof=1)) if several else None,
        "low": low,
        "high": high,
        "seeds": len(values),
    }
