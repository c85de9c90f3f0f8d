"""Budgets: every arm makes as many updates as the tokens or the operations of the baseline allow."""

from collections.abc import Sequence

from plugformer.errors import ConfigurationError
from plugformer_ablation.design.arms import Arm
from plugformer_ablation.design.blocks import BUDGETS
from plugformer_ablation.design.study import Study

EXACT = 0.01
"""A budget that whole updates miss by more is told."""


def with_equal_budget(arms: Sequence[Arm], study: Study) -> list[Arm]:
    """Returns arms whose trainings read as many tokens, or need as many operations, as that of the first.

    Where sizes are tuned, each of them has the budget of the first arm with the first of its settings. With
    operations the best one is then the compute-optimal size: approach 2 of Hoffmann et al. (2022),
    section 3.2, https://arxiv.org/abs/2203.15556.

    Raises:
        ConfigurationError: Some arms count their batches in examples, and some in tokens.
    """
    if study.match not in BUDGETS:
        return list(arms)
    baseline = arms[0]
    steps = baseline.resolved.task.training.steps or 0
    budget = steps * _cost(baseline, baseline, study.match)
    return [_within(arm, budget / _cost(arm, baseline, study.match), steps, study.match) for arm in arms]


def _cost(arm: Arm, baseline: Arm, match: str) -> float:
    """Returns what an update costs, in a unit that all arms share."""
    training, usual = arm.resolved.task.training, baseline.resolved.task.training
    if [training.batch_size is None, training.batch_tokens is None] != [
        usual.batch_size is None,
        usual.batch_tokens is None,
    ]:
        raise ConfigurationError(
            f"`match: {match}` needs one unit of batches, and the arm {arm.name!r} has another one than the "
            "baseline\n  give training.batch_size, or training.batch_tokens, in all arms"
        )
    batch = (training.batch_size or training.batch_tokens or 1) * training.batches_per_update
    return batch * (arm.counted["flops"] if match == "operations" else 1.0)


def _within(arm: Arm, allowed: float, usual: int, match: str) -> Arm:
    """Returns an arm with the whole number of updates that comes nearest to what is allowed."""
    steps = max(1, round(allowed))
    share = steps / allowed - 1
    off = f" ({share:+.1%})" if abs(share) > EXACT else ""
    note = f"{steps:,} updates for {usual:,} of the baseline: equal {match}{off}"
    return arm.with_steps(steps, *[note] * (steps != usual))
