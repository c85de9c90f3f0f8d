"""What one arm scored over its seeds."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite

import numpy as np

from plugformer_ablation.statistics.student import paired


@dataclass(frozen=True)
class Summary:
    """A score over seeds.

    Attributes:
        mean: The mean.
        deviation: The standard deviation; None of a single seed.
        interval: 95 % t interval of the mean; None of a single seed.
        count: Number of seeds.
    """

    mean: float
    deviation: float | None
    interval: tuple[float, float] | None
    count: int


def summarize(scores: Iterable[float], level: float = 0.95) -> Summary | None:
    """Returns the summary of the finite scores; None if there are none."""
    values = np.array([score for score in scores if isfinite(score)])
    if not len(values):
        return None
    if len(values) == 1:
        return Summary(float(values[0]), None, None, 1)
    return Summary(
        float(values.mean()), float(values.std(ddof=1)), paired(values).interval(level), len(values)
    )
