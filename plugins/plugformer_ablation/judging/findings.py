"""The findings of a study: a summary of each arm, and a verdict on each comparison."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from statistics import fmean, median

from jaxtyping import Float
from numpy import ndarray
from pandas import DataFrame

from plugformer_ablation.design.arms import RECORDED, TASK
from plugformer_ablation.design.study import flat
from plugformer_ablation.judging.comparison import Scores, Verdict, compare, compare_at_looks, ends, judge
from plugformer_ablation.judging.contrasts import judge_contrasts, planned_contrasts
from plugformer_ablation.judging.currency import speedup
from plugformer_ablation.judging.ladder_laws import power_laws, training_operations
from plugformer_ablation.judging.looks import Look, planned_looks
from plugformer_ablation.judging.over_tasks import judge_over_tasks, planned_over_tasks
from plugformer_ablation.judging.records import FORMAT, ComparisonRecord, LookRecord, Spent
from plugformer_ablation.judging.reliability import decision_accuracies, signals_to_noise
from plugformer_ablation.judging.results import MEASURED, CellResult, Record, StudyResults
from plugformer_ablation.judging.statistics import resampled, summarize
from plugformer_ablation.judging.unplanned import (
    LookFamily,
    family_of,
    pair_hashes,
    tested_hashes,
    with_look,
)
from plugformer_ablation.judging.wins import wins

LOSS = "validation loss"
"""What reports call it; every study has it, in nats per target."""


@dataclass(frozen=True, repr=False)
class Findings:
    """All that a report tells.

    `record` is what `report.json` holds. `arms` has for each one summaries of `score` and `loss`, None where
    every cell failed, of the `others`, metrics that are not judged, and its `cost`: that of
    `StudyResults.arms`, and what was measured, as the median of the cells. `comparisons` is what `judge`
    returns, with the `metric` and its direction, the number of `parameters` of both, `further` metrics with
    intervals that are corrected among themselves, and the difference of validation losses and its 95 % t
    interval over seeds, neither corrected nor judged, as is the `speedup`. `overall` has the same over all
    tasks of a study, `contrasts` are what `judge_contrasts` returns, `laws`,
    `decision_accuracy` and `signal_to_noise` what `power_laws` and the functions of `reliability` do.
    `looks` are the reports of this folder. `family` is all that was judged together with these comparisons.
    """

    results: StudyResults
    record: Record
    family: LookFamily

    @cached_property
    def arms(self) -> dict[str, Record]:
        """The records of arms by their names."""
        return {arm["arm"]: arm for arm in self.record["arms"]}

    @property
    def looks(self) -> list[LookRecord]:
        """The looks of this family that gave a verdict, this one included."""
        return [look for look in self.family.looks if look["chance"]]

    @property
    def metric(self) -> str:
        """Name of the primary metric; "score" if it depends on the task."""
        metrics = {arm["metric"] for arm in self.record["arms"]}
        return str(metrics.pop()) if len(metrics) == 1 else "score"

    @property
    def overall(self) -> list[Record]:
        """A record of each arm and scale over all tasks; empty if the study has one task alone."""
        overall: list[Record] = self.record["overall"]
        return overall

    @property
    def comparisons(self) -> list[Record]:
        """A record of each arm but the baseline, in the order of the study."""
        comparisons: list[Record] = self.record["comparisons"]
        return comparisons

    @property
    def undecided(self) -> list[str]:
        """The arms that are neither better nor worse nor equivalent, also over all tasks."""
        judged = [*self.comparisons, *self.overall]
        return [each["arm"] for each in judged if not Verdict(each["verdict"]).decides]

    @cached_property
    def largest(self) -> dict[str | None, float]:
        """By task, the largest mean score of an arm, without its sign."""
        found: dict[str | None, float] = defaultdict(float)
        for arm in self.record["arms"]:
            task = arm["values"].get(TASK)
            found[task] = max(found[task], abs(arm["score"]["mean"]) if arm["score"] else 0.0)
        return found

    @cached_property
    def table(self) -> DataFrame:
        """A row for each arm, with its comparison; numbers that do not exist are missing."""
        comparisons = {comparison["arm"]: comparison for comparison in self.comparisons}
        rows = []
        for arm in self.record["arms"]:
            unshown = ("task", "values", "tuned", "choices")
            row = {key: value for key, value in arm.items() if key not in unshown}
            row["failed"] = [f"seed {seed}: {reason}" for seed, reason in arm["failed"].items()]
            known = {key: value for key, value in row.items() if key == "baseline" or value is not None}
            record = flat(known | comparisons.get(arm["arm"], {}))
            lists = {key: "; ".join(map(str, v)) for key, v in record.items() if isinstance(v, list)}
            rows.append(record | lists)
        columns = dict.fromkeys(name for row in sorted(rows, key=len, reverse=True) for name in row)
        return DataFrame(rows, columns=list(columns), dtype=object)


def find(results: StudyResults) -> Findings:
    """Returns the findings of a study.

    The same results give the same findings: resamples of examples are drawn with a fixed seed.
    """
    scores = scores_of(results, {arm["name"]: arm["metric"] for arm in results.arms})
    overall = planned_over_tasks(results.study, results.arms)
    pairs = pair_hashes(results.study, results.arms, overall)
    tested = tested_hashes(results.arms, overall)
    family = family_of(pairs, results.looks, results.study, tested)
    looks = {
        name: planned_looks(tuple(results.study["looks"]), chance / family.number)
        for name, chance in family.chances.items()
    }
    comparisons = _comparisons(results, scores, looks, family)
    over_tasks = judge_over_tasks(overall, results, scores, looks, comparisons, family.late)
    verdicts = {each["arm"]: each["verdict"] for each in (*comparisons, *over_tasks)}
    seen = with_look(pairs, results.looks, results.study, verdicts, tested)
    record = {
        "format": FORMAT,
        "study": results.study,
        "arms": [_arm(results, arm) for arm in results.arms],
        "comparisons": comparisons,
        "overall": over_tasks,
        "screening": list(results.screening),
        "trials": list(results.trials),
        "preparation": list(results.preparation),
        "spent": _spent(results.cells, results.trials, results.preparation),
        "laws": power_laws(results),
        "decision_accuracy": decision_accuracies(results),
        "signal_to_noise": signals_to_noise(results),
        "contrasts": judge_contrasts(
            planned_contrasts(results.arms),
            scores,
            results.study["seeds"],
            family.least / max(len(results.study["looks"]), 1),
        ),
        "looks": seen,
        "made_of": results.made_of,
    }
    return Findings(results, record, family_of(pairs, seen, results.study, tested))


def _arm(results: StudyResults, arm: Record) -> Record:
    """Returns the `ArmRecord` of a report."""
    cells = results.cells_of(arm["name"])
    summaries = {
        name: summarize(cell.metrics[name] for cell in cells if name in cell.metrics)
        for name in results.metrics[arm["name"]]
    }
    whole = [cell for cell in cells if cell.tokens] or cells  # one that broke off has cost less
    measured = {name: median(getattr(cell, name) for cell in whole) for name in MEASURED} if whole else {}
    return {
        "arm": arm["name"],
        **{key: arm[key] for key in (*RECORDED, "choices", "task")},
        "cells": len(cells),
        "failed": {
            str(cell.seed): cell.failure for cell in results.cells if cell.arm == arm["name"] and cell.failure
        },
        "score": summaries.pop(arm["metric"]),
        "loss": summarize(cell.loss for cell in cells),
        "others": {name: summary for name, summary in summaries.items() if summary is not None},
        "cost": {**arm["cost"], "operations": training_operations(results, arm) or None, **measured},
        "spent": _spent(
            [cell for cell in results.cells if cell.arm == arm["name"]],
            [trial for trial in results.trials if trial["arm"] == arm["name"]],
            [training for training in results.preparation if training["arm"] == arm["name"]],
        ),
        "sensitivity": _sensitivity(results.trials, arm["name"]),
        "remarks": list(arm["notes"]),
    }


def _spent(cells: Sequence[CellResult], trials: Sequence[Record], preparation: Sequence[Record]) -> Spent:
    """Returns the number of `trainings`, of `trials` and of those in `preparation`, and the seconds of each.

    A trial that decides is a training of the verdict, and counts as that alone. Seconds are the wall time of
    all updates, on the device of a training: a GPU, or its share of the cores. Trainings that failed,
    or ended because a number was not finite, count without their time, which nobody has recorded.
    """
    trials = [trial for trial in trials if not trial.get("decides")]
    return {
        "trainings": len(cells),
        "training_seconds": sum(cell.seconds for cell in cells),
        "trials": len(trials),
        "trial_seconds": sum(trial["seconds"] for trial in trials),
        "preparation": len(preparation),
        "preparation_seconds": sum(training["seconds"] for training in preparation),
    }


def _sensitivity(trials: Sequence[Record], arm: str) -> dict[str, float]:
    """Returns the mean excess of the validation loss over the best, of an arm that tuned one setting alone.

    Over the values that all arms and seeds have tried for it, so that those of arms can be compared. A trial
    that diverged has the loss of its untrained model. For a learning rate this is its sensitivity of Wortsman
    et al. (2023), section 2.2, https://arxiv.org/abs/2309.14322.
    """
    whole = [trial for trial in trials if trial["share"] == 1 and trial["loss"] is not None]
    paths = {path for trial in whole if trial["arm"] == arm for path in trial["tuned"]}
    if len(paths) != 1:
        return {}
    (path,) = paths
    losses: dict[str, dict[tuple[str, int], float]] = defaultdict(dict)
    for trial in (trial for trial in whole if path in trial["tuned"]):
        losses[json.dumps(trial["tuned"][path])][trial["arm"], trial["seed"]] = trial["loss"]
    tried = {key for each in losses.values() for key in each}
    means = [
        fmean(loss for (name, _), loss in each.items() if name == arm)
        for each in losses.values()
        if each.keys() == tried
    ]
    return {path: fmean(means) - min(means)} if len(means) > 2 else {}


def _comparisons(
    results: StudyResults,
    scores: Mapping[str, Scores],
    looks: Mapping[str, Sequence[Look]],
    family: LookFamily,
) -> list[ComparisonRecord]:
    arms = {arm["name"]: arm for arm in results.arms}
    parameters = {name: arm["cost"]["parameters"] for name, arm in arms.items()}
    further = _further(results, family)
    records: list[ComparisonRecord] = []
    for arm in results.arms:
        name, baseline = arm["name"], arm["baseline"]
        if baseline is None:
            continue
        metric = results.metrics[name][arm["metric"]]
        higher = metric.higher_is_better
        seeds = results.study["seeds"]
        declared = None if name in family.late else results.study["smallest_effect"]
        found, look, smallest = compare_at_looks(
            scores[name], scores[baseline], seeds, looks[name], declared, higher_is_better=higher
        )
        records.append(
            {
                "arm": name,
                "baseline": baseline,
                "metric": arm["metric"],
                "higher_is_better": higher,
                "parameters": {"arm": parameters[name], "baseline": parameters[baseline]},
                **judge(found, look, smallest, higher_is_better=higher),
                "further": further.get(name, {}),
                "loss_difference": _loss_difference(results, name, baseline),
                "speedup": speedup(results.cells_of(name), results.cells_of(baseline), arm, arms[baseline]),
                "examples": wins(results.cells_of(name), results.cells_of(baseline), arm["metric"], metric),
            }
        )
    return records


def _further(results: StudyResults, family: LookFamily) -> dict[str, dict[str, Record]]:
    """Returns, by arm and name, differences in further metrics; all their intervals hold together."""
    wanted = results.study.get("metrics", [])
    pairs = [
        (arm, metric)
        for metric in wanted
        for arm in results.arms
        if arm["baseline"] and metric in results.metrics[arm["name"]]
    ]
    scores = {metric: scores_of(results, dict.fromkeys(results.metrics, metric)) for metric in wanted}
    found: dict[str, dict[str, Record]] = defaultdict(dict)
    for arm, metric in pairs:
        sides = (scores[metric][arm["name"]], scores[metric][arm["baseline"]])
        comparison = compare(*sides, results.study["seeds"])
        level = 1 - family.least / max(len(pairs), family.number * len(wanted)) / len(results.study["looks"])
        interval = ends(comparison.interval(level))
        found[arm["name"]][metric] = {"difference": comparison.difference, "level": level, **interval}
    return found


def scores_of(results: StudyResults, metrics: Mapping[str, str]) -> dict[str, Scores]:
    """Returns the scores of each arm in its metric.

    Cells with the same test set share the draws from it, also those of different tasks.
    """
    cells = {arm["name"]: results.cells_of(arm["name"]) for arm in results.arms}
    test_sets = {arm["name"]: arm["test_set"] or arm["values"].get(TASK, "") for arm in results.arms}
    known = list(dict.fromkeys(test_sets.values()))
    sizes: dict[tuple[str, str, int], list[CellResult]] = defaultdict(list)
    for cell in chain.from_iterable(cells.values()):
        if (metric := metrics[cell.arm]) in cell.statistics:
            sizes[test_sets[cell.arm], metric, len(cell.statistics[metric])].append(cell)
    draws: dict[tuple[str, int], Float[ndarray, " resamples"]] = {}
    for (test_set, metric, examples), alike in sizes.items():
        if examples > 1:
            rows = [cell.statistics[metric] for cell in alike]
            aggregate = results.metrics[alike[0].arm][metric].aggregate
            scores = resampled(rows, aggregate, seed=known.index(test_set))
            draws |= {(cell.arm, cell.seed): draw for cell, draw in zip(alike, scores, strict=True)}
    result = {}
    for arm, arm_cells in cells.items():
        metric = metrics[arm]
        scored = [cell for cell in arm_cells if metric in cell.metrics]
        counts = {len(cell.statistics[metric]) for cell in scored if metric in cell.statistics}
        result[arm] = Scores(
            {cell.seed: cell.metrics[metric] for cell in scored},
            {cell.seed: draws[arm, cell.seed] for cell in scored if (arm, cell.seed) in draws},
            counts.pop() if len(counts) == 1 else 0,
            {
                cell.seed: reason
                for cell in results.cells
                if cell.arm == arm and (reason := cell.failure or cell.diverged)
            },
            frozenset(cell.seed for cell in scored if cell.diverged),
        )
    return result


def _loss_difference(results: StudyResults, arm: str, baseline: str) -> Record:
    ours, theirs = ({cell.seed: cell.loss for cell in results.cells_of(name)} for name in (arm, baseline))
    summary = summarize(ours[seed] - theirs[seed] for seed in ours if seed in theirs) or {"low": None}
    return {name: None if summary["low"] is None else summary[name] for name in ("mean", "low", "high")}
