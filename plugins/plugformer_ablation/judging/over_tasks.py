"""One comparison of each arm over all tasks of a study, at each scale."""

from collections.abc import Collection, Mapping, Sequence
from math import isfinite, nan
from statistics import fmean
from typing import NamedTuple

import numpy as np

from plugformer_ablation.design.arms import SCALE, TASK, context_name, plain_name
from plugformer_ablation.judging.comparison import (
    ALPHA,
    PairedComparison,
    Scores,
    Verdict,
    compare_at_looks,
    judge,
)
from plugformer_ablation.judging.contrasts import summed
from plugformer_ablation.judging.looks import Look
from plugformer_ablation.judging.records import ComparisonRecord, OverallRecord
from plugformer_ablation.judging.results import Record, StudyResults
from plugformer_ablation.judging.statistics import StudentT

PERCENT = "% of the baseline"
"""The unit of a mean over tasks with different metrics."""


class OverTasks(NamedTuple):
    """An arm on several tasks, in their order."""

    name: str
    arms: list[Record]

    @property
    def metric(self) -> str | None:
        """The metric that all tasks share, or None."""
        metrics = {arm["metric"] for arm in self.arms}
        return metrics.pop() if len(metrics) == 1 else None


def planned_over_tasks(study: Record, arms: Sequence[Record]) -> list[OverTasks]:
    """Returns each arm and scale over all tasks but those that others start from; none with a single task."""
    starts = {task["from"]["task"] for task in study.get("tasks", {}).values() if task["from"]}
    groups: dict[str, list[Record]] = {}
    for arm in arms:
        values = arm["values"]
        if arm["baseline"] is not None and values.get(TASK, "") not in starts:
            name = context_name({SCALE: values.get(SCALE, "")}, plain_name(arm["name"], values))
            groups.setdefault(name, []).append(arm)
    return [OverTasks(name, alike) for name, alike in groups.items() if len(alike) > 1]


def judge_over_tasks(
    planned: Sequence[OverTasks],
    results: StudyResults,
    scores: Mapping[str, Scores],
    looks: Mapping[str, Sequence[Look]],
    comparisons: Sequence[ComparisonRecord],
    late: Collection[str],
) -> list[OverallRecord]:
    """Returns a record of each: the mean difference over the tasks, its interval and verdict.

    Tasks with one metric have the mean of it. Scores of different metrics are shares of the baseline's mean
    on each task, in percent, whose own error is left out; a larger share is better.

    Args:
        planned: What is compared.
        results: The study.
        scores: Of all arms.
        looks: The planned ones by name, at the level of one comparison.
        comparisons: Those on single tasks, which say where an arm is better and worse.
        late: Names whose smallest effect was declared after a result, and does not count.
    """
    verdicts = {each["arm"]: each["verdict"] for each in comparisons}
    records: list[OverallRecord] = []
    for each in planned:
        directions = [results.metrics[arm["name"]][arm["metric"]].higher_is_better for arm in each.arms]
        higher = directions[0] if each.metric else True
        study = {**results.study, "smallest_effect": None} if each.name in late else results.study
        found, look, smallest = _compared(each, study, scores, looks[each.name], directions)
        tasks = [arm["values"][TASK] for arm in each.arms]
        told = [verdicts[arm["name"]] for arm in each.arms]
        records.append(
            {
                "arm": each.name,
                "arms": [arm["name"] for arm in each.arms],
                "tasks": tasks,
                "metric": each.metric or PERCENT,
                "higher_is_better": higher,
                **judge(found, look, smallest, higher_is_better=higher),
                "better_on": [task for task, one in zip(tasks, told, strict=True) if one == Verdict.BETTER],
                "worse_on": [task for task, one in zip(tasks, told, strict=True) if one == Verdict.WORSE],
            }
        )
    return records


def _compared(
    each: OverTasks,
    study: Record,
    scores: Mapping[str, Scores],
    looks: Sequence[Look],
    directions: Sequence[bool],
) -> tuple[PairedComparison, Look, float | None]:
    """Returns the comparison of the means over tasks, its look, and the smallest effect that matters."""
    weights = [1.0 / len(directions)] * len(directions)
    if each.metric is None:
        first = study["seeds"][: looks[0].seeds]  # later seeds change no weight
        means = [_base(scores[arm["baseline"]], first) for arm in each.arms]
        if not all(means):
            note = "on a task the baseline has no score, or one that may be 0: there is no share of it"
            return PairedComparison(None, 0, notes=(note,)), looks[0], None
        shares = [100 / mean * (1 if higher else -1) for mean, higher in zip(means, directions, strict=True)]
        weights = [share / len(shares) for share in shares]
    ours, theirs = (
        summed([(weight, scores[arm[side]]) for weight, arm in zip(weights, each.arms, strict=True)])
        for side in ("name", "baseline")
    )
    declared: float | str | None = study["smallest_effect"]
    if isinstance(declared, str) and each.metric is None:
        declared = float(declared.rstrip(" %"))
    higher = directions[0] if each.metric else True
    tasks = [(scores[arm["name"]], scores[arm["baseline"]]) for arm in each.arms]
    return compare_at_looks(ours, theirs, study["seeds"], looks, declared, tasks, higher_is_better=higher)


def _base(baseline: Scores, seeds: Sequence[int]) -> float:
    """Returns the mean score without its sign; 0 if there is none, or it may be 0.

    It may be if a seed scores 0 or has another sign; or, from three seeds on, if the interval includes 0.
    """
    known = [score for seed in seeds if isfinite(score := baseline.scores.get(seed, nan))]
    if not known or min(known) <= 0 <= max(known):
        return 0.0
    mean = StudentT.of(np.array(known)) if len(known) > 2 else None
    return abs(fmean(known)) if mean is None or mean.p < ALPHA else 0.0
