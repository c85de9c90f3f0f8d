"""Whether smaller scales and noisy metrics can be relied on: decision accuracy, and signal to noise."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import isfinite
from statistics import fmean

import numpy as np

from plugformer_ablation.arms import SCALE, TASK, context_of, plain_name
from plugformer_ablation.results import Record, StudyResults

LAST = 5
"""Evaluations of a training in which noise is looked for, as in the paper for small models."""

Means = Mapping[str, tuple[float, float]]
"""Of each arm by name, the mean of its primary metric and of its loss over seeds, higher is better."""


def decision_accuracies(results: StudyResults) -> list[Record]:
    """Returns, for each `scale` but the largest, in how many `pairs` of arms it decides as the largest does.

    The arm with the better mean of the primary metric at the largest scale is the better one at this scale
    `by_metric`, or `by_loss`: Magnusson et al. (2025), https://arxiv.org/abs/2504.11393. Arms that are equal
    at the largest scale are no pair; those that are equal at the smaller one alone do not agree.
    """
    means: dict[str, dict[str, dict[str, tuple[float, float]]]] = {}
    for arm in results.arms:
        cells, values = results.cells_of(arm["name"]), arm["values"]
        if SCALE in values and cells:
            sign = 1 if results.metrics[arm["name"]][arm["metric"]].higher_is_better else -1
            scores = (
                fmean(sign * cell.metrics[arm["metric"]] for cell in cells),
                -fmean(cell.loss for cell in cells),
            )
            scales = means.setdefault(values.get(TASK, ""), {})
            scales.setdefault(values[SCALE], {})[plain_name(arm["name"], values)] = scores
    return [
        {
            "task": task,
            "scale": scale,
            "largest": list(scales)[-1],
            **_agreement(scales[scale], list(scales.values())[-1]),
        }
        for task, scales in means.items()
        for scale in list(scales)[:-1]
    ]


def _agreement(small: Means, large: Means) -> Record:
    pairs = [
        (one, other)
        for one, other in combinations([arm for arm in small if arm in large], 2)
        if large[one][0] != large[other][0]
    ]

    def agreeing(proxy: int) -> int:
        return sum(
            (small[one][proxy] - small[other][proxy]) * (large[one][0] - large[other][0]) > 0
            for one, other in pairs
        )

    return {"pairs": len(pairs), "by_metric": agreeing(0), "by_loss": agreeing(1)}


def signals_to_noise(results: StudyResults) -> list[Record]:
    """Returns the signal to noise of the primary `metric` and the `loss` in each `context` of a study."""
    curves: dict[str, dict[str, list[list[list[float]]]]] = {}
    for arm in results.arms:
        known = curves.setdefault(", ".join(context_of(arm["values"])), {"metric": [], "loss": []})
        points = [cell.curve for cell in results.cells_of(arm["name"])]
        known["loss"].append([[point["loss"] for point in curve] for curve in points])
        known["metric"].append([[point["metrics"][arm["metric"]] for point in curve] for curve in points])
    found = [
        {"context": context, **{name: signal_to_noise(arms) for name, arms in known.items()}}
        for context, known in curves.items()
    ]
    return [record for record in found if record["metric"] or record["loss"]]


def signal_to_noise(arms: Iterable[Sequence[Sequence[float | None]]]) -> Record | None:
    """Returns how far apart arms are in a metric, and how much it varies from evaluation to evaluation.

    The `signal` is the largest difference of two arms, and the `noise` the standard deviation over the last
    evaluations of a training, both relative to the mean: Heineman et al. (2025),
    https://arxiv.org/abs/2508.13144. Trainings of studies are so short that they still improve then: the
    deviation is the one around a parabola. The `ratio` is that of signal and noise.

    Args:
        arms: Of each one, the values of the metric in each of its trainings.

    Returns:
        None for less than two arms with ten evaluations of a training, and without noise.
    """
    last = [
        [
            values
            for curve in curves
            if len(curve) >= 2 * LAST and len(values := _finite(curve[-LAST:])) == LAST
        ]
        for curves in arms
    ]
    levels = [float(np.mean(curves)) for curves in last if curves]
    if len(levels) < 2:
        return None
    columns = np.concatenate([curves for curves in last if curves]).T
    residuals = np.polyfit(np.arange(LAST), columns, 2, full=True)[1]
    noise, mean = float(np.mean(residuals) / (LAST - 3)) ** 0.5, abs(fmean(levels))
    if not noise or not mean:
        return None
    signal = max(levels) - min(levels)
    return {"signal": signal / mean, "noise": noise / mean, "ratio": signal / noise}


def _finite(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None and isfinite(value)]
