"""Planned looks at growing numbers of seeds, which together keep the error rates of one."""

from functools import cache
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy import ndarray

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
