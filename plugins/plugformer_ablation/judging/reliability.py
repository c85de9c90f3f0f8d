"""Whether smaller scales and noisy metrics can be relied on: decision accuracy, and signal to noise."""

from collections.abc import Iterable, Sequence
from itertools import groupby

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from plugformer_ablation.design.arms import SCALE, TASK, context_of
from plugformer_ablation.judging.results import Record, StudyResults

LAST = 5
"""Evaluations of a training in which noise is looked for, as in the paper for small models."""


def decision_accuracies(results: StudyResults) -> list[Record]:
    """Returns, for each `scale` but the largest, in how many `pairs` of arms it decides as the largest does.

    The arm with the better mean of the primary metric at the largest scale is the better one at this scale
    `by_metric`, or `by_loss`: Magnusson et al. (2025), https://arxiv.org/abs/2504.11393. Arms that are equal
    at the largest scale are no pair; those that are equal at the smaller one alone do not agree.
    """
    means: dict[str, dict[str, list[ndarray]]] = {}
    for arm in results.arms:
        if SCALE in arm["values"]:
            sign = 1 if results.metrics[arm["name"]][arm["metric"]].higher_is_better else -1
            cells = results.cells_of(arm["name"])
            scores = [(sign * cell.metrics[arm["metric"]], -cell.loss) for cell in cells]
            scales = means.setdefault(arm["values"].get(TASK, ""), {})
            mean = np.mean(scores or [(np.nan, np.nan)], axis=0)
            scales.setdefault(arm["values"][SCALE], []).append(mean)
    records = []
    for task, scales in means.items():
        orders = {scale: _orders(np.array(arms)) for scale, arms in scales.items()}
        largest, decided = list(orders.items())[-1]
        pairs = np.abs(decided[0]) == 1
        for scale, order in list(orders.items())[:-1] if pairs.any() else ():
            by_metric, by_loss = (int((each == decided[0])[pairs].sum()) for each in order)
            told = {"pairs": int(pairs.sum()), "by_metric": by_metric, "by_loss": by_loss}
            records.append({"task": task, "scale": scale, "largest": largest, **told})
    return records


def _orders(scores: Float[ndarray, "arms 2"]) -> Float[ndarray, "2 pairs"]:
    """Returns for each pair of arms which of them is better, 1 for the first and -1 for the second."""
    first, second = np.triu_indices(len(scores), 1)
    with np.errstate(invalid="ignore"):  # infinite scores
        order: ndarray = np.sign(scores[first] - scores[second]).T
    return order


def signals_to_noise(results: StudyResults) -> list[Record]:
    """Returns the signal to noise of the primary `metric` and the `loss` in each `context` of a study."""
    records = []
    for context, group in groupby(results.arms, key=lambda arm: context_of(arm["values"])):
        metrics = {arm["name"]: arm["metric"] for arm in group}
        curves = [[cell.curve for cell in results.cells_of(name)] for name in metrics]
        found = {
            "loss": signal_to_noise([[point["loss"] for point in curve] for curve in arm] for arm in curves),
            "metric": signal_to_noise(
                [[point["metrics"].get(name) for point in curve] for curve in arm]
                for arm, name in zip(curves, metrics.values(), strict=True)
            ),
        }
        records += [{"context": ", ".join(context), **found}] if any(found.values()) else []
    return records


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
    ends = [np.array([curve[-LAST:] for curve in arm if len(curve) >= 2 * LAST], dtype=float) for arm in arms]
    ends = [curves[np.isfinite(curves).all(axis=1)] for curves in ends if curves.size]
    levels = [float(curves.mean()) for curves in ends if curves.size]
    if len(levels) < 2:
        return None
    residuals = np.polyfit(np.arange(LAST), np.concatenate(ends).T, 2, full=True)[1]
    noise, mean = float(np.mean(residuals) / (LAST - 3)) ** 0.5, abs(float(np.mean(levels)))
    if not noise or not mean:
        return None
    signal = max(levels) - min(levels)
    return {"signal": signal / mean, "noise": noise / mean, "ratio": signal / noise}
