"""Planned looks at growing numbers of seeds, which keep the error rates of one, and what one more decides."""

from bisect import bisect_left
from dataclasses import replace
from functools import cache
from math import ceil, sqrt
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from plugformer_ablation.judging.records import Needed
from plugformer_ablation.judging.statistics import StudentT

MOST = 1000
"""More seeds, or so many times the examples, are of no use to anybody."""

_GRID = 801  # points of the densities between looks; more change no level by 0.1 %


class Look(NamedTuple):
    """One look at a comparison.

    Attributes:
        seeds: How many seeds it sees.
        alpha: Level of its test for a difference.
        equivalence: The same for its interval of equivalence: each side is tested at half of it.
    """

    seeds: int
    alpha: float
    equivalence: float


def planned_looks(seeds: tuple[int, ...], alpha: float) -> list[Look]:
    """Returns the looks after these numbers of seeds, for a chance of alpha that any of them errs.

    An interval at a level of 1 - 2 alpha within the margins is the two one-sided tests of equivalence at
    alpha: Schuirmann (1987), https://doi.org/10.1007/BF01068419.
    """
    levels = zip(seeds, nominal_levels(alpha, seeds), nominal_levels(2 * alpha, seeds), strict=True)
    return [Look(*each) for each in levels]


@cache
def nominal_levels(alpha: float, looks: tuple[int, ...]) -> tuple[float, ...]:
    """Returns the two-sided level of the test at each look, for a chance of alpha that any look rejects.

    Alpha is spent as in a design of O'Brien and Fleming, late: Lan and DeMets (1983),
    https://doi.org/10.1093/biomet/70.3.659, page 660. The levels are those of a mean with a known deviation,
    computed as in Armitage, McPherson and Rowe (1969), https://doi.org/10.2307/2343787, and are applied to
    tests with Student's t: Jennison and Turnbull (2000), section 3.8. That costs little exactness:
    benchmarks/false_alarms.py.

    Args:
        alpha: The chance over all looks.
        looks: Numbers of seeds, rising.
    """
    from scipy.optimize import brentq
    from scipy.special import ndtr

    if len(looks) == 1:
        return (alpha,)
    levels: list[float] = []
    points, weights, before, spent = np.zeros(1), np.ones(1), 0.0, 0.0  # a Brownian motion that starts in 0
    for share in (look / looks[-1] for look in looks):
        step, total = sqrt(share - before), _spent(alpha, share)
        edge = float(brentq(_excess, 0.0, 40.0, args=(points, weights, step, total - spent)))
        levels.append(2 * float(ndtr(-edge / sqrt(share))))
        grid, width = np.linspace(-edge, edge, _GRID, retstep=True)
        moved = np.exp(-(((grid[:, None] - points) / step) ** 2) / 2) / (step * sqrt(2 * np.pi))
        points, weights, before, spent = grid, (moved @ weights) * width, share, total
        weights[[0, -1]] /= 2  # the trapezoidal rule
    return tuple(levels)


def _excess(edge: float, points: ndarray, weights: ndarray, step: float, allowed: float) -> float:
    """Returns by how much the chance of leaving -edge to edge in a step exceeds what is allowed."""
    from scipy.special import ndtr

    outside = ndtr((-edge - points) / step) + ndtr((points - edge) / step)
    return float(weights @ outside) - allowed


def _spent(alpha: float, share: float) -> float:
    """Returns what both sides together spend of alpha until a share of the largest sample."""
    from scipy.special import ndtr, ndtri

    return float(4 * ndtr(ndtri(alpha / 4) / sqrt(share)))  # NormalDist rounds what is so small to 0


def would_decide(test: StudentT | None, look: Look, smallest: float | None) -> Needed | None:
    """Returns how many seeds or test examples would decide a comparison, or None if neither can be told.

    The interval of so many seeds would exclude 0, or show equivalence, if the difference and the variances
    of seeds and examples stayed as they are. The level is half of that of the last look: more seeds after a
    verdict are a look that was not planned. This is no power: were the difference the true one, the interval
    of such a study would exclude 0 about every second time.

    `seeds` is None if `MOST` would not do. `examples` is then a lower bound of those that are needed,
    with any number of seeds, provided that it is larger than what there is.

    Args:
        test: The difference with its errors over seeds and examples.
        look: Of this verdict.
        smallest: The smallest difference that matters, if arms can be equivalent.
    """
    if test is None or test.other is None or not test.mean or not look.alpha:
        return None
    other, reach = test.other, abs(test.mean)
    seeds, examples = round(test.freedom) + 1, round(other.freedom) + 1
    room = [(reach, look.alpha / 2)]
    if smallest is not None and reach < smallest:
        room.append((smallest - reach, look.equivalence / 2))

    def decided(number: int) -> bool:
        then = replace(test, error=test.error * sqrt(seeds / number), freedom=float(number - 1))
        return any(then.margin(alpha) < limit for limit, alpha in room)

    numbers = range(seeds + 1, MOST + 1)
    if decided(MOST):
        return {"seeds": numbers[bisect_left(numbers, True, key=decided)], "examples": None}
    needed = min(ceil(examples * (other.margin(alpha) / limit) ** 2) for limit, alpha in room)
    return {"seeds": None, "examples": needed} if examples < needed <= MOST * examples else None
