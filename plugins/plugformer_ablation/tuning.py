"""Choosing settings for each arm: the same trials for all, by their results on validation alone."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from plugformer_ablation.fairness import Priced
from plugformer_ablation.results import CellResult


def described(variant: Priced) -> str:
    """Returns what tuning tries in a variant, short."""
    return ", ".join(f"{path}={change.label}" for path, change in variant.variant.tuned.items())


def choose(
    trials: Sequence[Priced], results: Mapping[str, CellResult], metric: str, *, higher_is_better: bool
) -> Priced:
    """Returns the trial of an arm that was best; of equals the one of lower loss, then the first.

    If all failed, it is the first, which then says so.

    Args:
        trials: In the order of the study.
        results: Of each trial, by its description.
        metric: The primary metric.
        higher_is_better: Its direction.
    """
    sign = -1.0 if higher_is_better else 1.0

    def rank(trial: Priced) -> tuple[float, float]:
        result = results[described(trial)]
        value = result.metrics[metric]
        return (math.inf if math.isnan(value) else sign * value, result.loss)

    finished = [trial for trial in trials if results[described(trial)].failure is None]
    if not finished:
        return replace(trials[0], failure=f"every trial failed: {results[described(trials[0])].failure}")
    return min(finished, key=rank)
