"""Speedup at equal loss: how much less an arm needs to be as good as its baseline. Knows no files."""

from collections.abc import Mapping, Sequence
from math import exp, inf, log
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from plugformer_ablation.judging.results import CellResult, Record, flops_of
from plugformer_ablation.judging.statistics import StudentT

LEVEL = 0.95
"""Of the intervals of speedups and of bands: each is for itself, not corrected for the number of arms."""

Curve = Float[ndarray, "evaluations 2"]
"""The logarithm of the number of updates, rising, and the validation loss there."""


def speedup(
    arm: Sequence[CellResult],
    baseline: Sequence[CellResult],
    arm_record: Mapping[str, Any],
    baseline_record: Mapping[str, Any],
) -> Record:
    """Returns how many times as fast an arm is to the same validation loss, over pairs of the same seed.

    In a pair this is the larger one of both final losses: the number of updates with which the baseline has
    it, over that of the arm. So it is above 1 where the arm reaches the final loss of its baseline
    earlier, and below 1 where the baseline reaches that of the arm. The mean of the logarithms over pairs
    has a t interval. That it covers, and for which curves, is measured by benchmarks/speedups.py.

    Curves are read as they are. Where the learning rate falls to the end, an early evaluation is not the end
    of a shorter training, which would have been better: speedups are then closer to 1 than those of trainings
    of several lengths (Wen et al., 2025, https://arxiv.org/abs/2509.02046).

    Args:
        arm: Its cells; those that failed are not among them.
        baseline: The same of the baseline.
        arm_record: Its `cost`: `flops` per token, the same factor forward and backward, and of an `update`
            the time relative to the baseline's, or None; and `choices`, whose cost is that of their seeds.
        baseline_record: The same of the baseline.

    Returns:
        `pairs`, and in how many of them the arm `reaches` a lower final loss than the baseline. In `updates`,
        `tokens`, `operations` and `time`, as far as they are known, `ratio` with the ends `low` and `high` of
        its interval, None from one pair. Without any of them, a `note` says why.
    """
    theirs = {cell.seed: cell for cell in baseline}
    pairs = [(cell, theirs[cell.seed]) for cell in arm if cell.seed in theirs]
    record: Record = {"pairs": len(pairs), "reaches": 0}
    if any(cell.diverged for pair in pairs for cell in pair):
        return {**record, "note": "a training diverged"}
    curves = [(curve_of(ours), curve_of(other)) for ours, other in pairs]
    if not curves or any(len(curve) < 2 for pair in curves for curve in pair):
        return {**record, "note": "there are not two evaluations of each training"}
    logs = np.array([log_speedup(*pair) for pair in curves])
    record["reaches"] = sum(bool(ours[-1, 1] < other[-1, 1]) for ours, other in curves)
    if not np.isfinite(logs).all():
        return {**record, "note": "a training has the loss that is compared before its first evaluation"}
    record["updates"] = _summary(logs)
    if all(cell.tokens for pair in pairs for cell in pair):
        tokens = np.array([[cell.tokens / cell.curve[-1]["step"] for cell in pair] for pair in pairs])
        logs_of_tokens = logs + np.log(tokens[:, 1] / tokens[:, 0])
        record["tokens"] = _summary(logs_of_tokens)
        sides = (arm_record, baseline_record)
        flops = np.array([[flops_of(side, ours.seed) for side in sides] for ours, _ in pairs])
        record["operations"] = _summary(logs_of_tokens + np.log(flops[:, 1] / flops[:, 0]))
    if update := arm_record["cost"]["update"]:
        record["time"] = _summary(logs - log(update["ratio"]), log(update["high"] / update["low"]) / 2)
    return record


def curve_of(cell: CellResult) -> Curve:
    """Returns the finite losses of a cell's evaluations."""
    points = np.array([(log(point["step"]), point["loss"]) for point in cell.curve], dtype=float)
    finite: Curve = points.reshape(-1, 2)[np.isfinite(points.reshape(-1, 2)[:, 1])]
    return finite


def log_speedup(arm: Curve, baseline: Curve) -> float:
    """Returns the logarithm of how many times as fast an arm is to the larger one of both final losses.

    It is infinite, or minus infinity, where a curve is not above that loss at its first evaluation.
    """
    if arm[-1, 1] <= baseline[-1, 1]:
        return float(baseline[-1, 0] - _reached(arm, baseline[-1, 1]))
    return float(_reached(baseline, arm[-1, 1]) - arm[-1, 0])


def _reached(curve: Curve, loss: float) -> float:
    """Returns the logarithm of the updates after which a curve that ends at or below a loss has reached it.

    Between evaluations the curve is a line over the logarithm of updates. One that is noisy crosses the loss
    several times: the first crossing would be too early by luck and the last too late, so that it is their
    mean. Minus infinity if it is not above the loss at its first evaluation.
    """
    steps, below = curve[:, 0], curve[:, 1] <= loss
    if below[0]:
        return -inf
    (crossed,) = np.nonzero(below[1:] != below[:-1])
    ends = crossed[[0, -1]]
    share = (curve[ends, 1] - loss) / (curve[ends, 1] - curve[ends + 1, 1])
    return float(np.mean(steps[ends] + share * (steps[ends + 1] - steps[ends])))


def _summary(logs: Float[ndarray, " pairs"], cost: float = 0.0) -> Record:
    """Returns the mean ratio with its interval; `cost` is the margin of what else multiplies it."""
    mean = float(np.mean(logs))
    if len(logs) < 2:
        return {"ratio": exp(mean), "low": None, "high": None}
    margin = float(np.hypot(StudentT.of(logs).margin(1 - LEVEL), cost))
    return {"ratio": exp(mean), "low": exp(mean - margin), "high": exp(mean + margin)}
