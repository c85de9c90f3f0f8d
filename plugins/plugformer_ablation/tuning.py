"""Tuning: every arm takes the best of the settings that it tries on validation, with seeds of its own."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from plugformer.configuration import dump, resolve
from plugformer.errors import ConfigurationError
from plugformer.validation import validate
from plugformer_ablation.arms import Arm, by_stage
from plugformer_ablation.cells import Cell, make_cells
from plugformer_ablation.results import CellResult, Record, StudyResults
from plugformer_ablation.study import TUNING_SEED, Study

Train = Callable[[Sequence[Cell]], list[CellResult]]
"""Trains cells as far as they have no result, and returns the results."""


def tuned(
    arms: Sequence[Arm], study: Study, results: StudyResults, out: Path, train: Train, rows: Any
) -> tuple[list[Arm], list[Record]]:
    """Returns each arm with the settings that it chooses, and a record of every trial.

    An arm whose choice is at the end of a range tries the next number beyond, as often as the study allows.
    """
    chosen: dict[str, Arm] = {}
    records: list[Record] = []
    for stage in by_stage(arms):
        tried: dict[str, list[tuple[Arm, list[CellResult]]]] = {}
        waiting = list(stage)
        for extension in range(study.tuning.extend + 1):
            for arm, outcome in _trials(waiting, study, out, train, chosen):
                tried.setdefault(arm.name, []).append((arm, outcome))
            if extension < study.tuning.extend:
                waiting = [
                    further
                    for trials in tried.values()
                    for further in _beyond(_best(trials, results), trials, rows)
                ]
        chosen |= {name: _chosen(trials, results) for name, trials in tried.items()}
        records += [
            _record(arm, cell) for trials in tried.values() for arm, cells in trials for cell in cells
        ]
    return [chosen[name] for name, _ in groupby(arm.name for arm in arms)], records


def _trials(
    arms: Sequence[Arm], study: Study, out: Path, train: Train, chosen: Mapping[str, Arm]
) -> list[tuple[Arm, list[CellResult]]]:
    """Returns what arms with settings to try score, with every seed of tuning.

    What they start from, as far as it has been `chosen`, is trained with the same seeds before.
    """
    seeds = range(TUNING_SEED, TUNING_SEED + study.tuning.seeds)
    for start in dict.fromkeys(arm.start for arm in arms if arm.tuned and arm.start):
        train(make_cells(chosen[start], seeds, out, chosen))
    made = [make_cells(arm, seeds, out, chosen, tried=arm.tried) if arm.tuned else [] for arm in arms]
    finished = iter(train([cell for cells in made for cell in cells]))
    return [(arm, [next(finished) for _ in cells]) for arm, cells in zip(arms, made, strict=True)]


def _best(trials: Sequence[tuple[Arm, list[CellResult]]], results: StudyResults) -> Arm:
    """Returns the arm with its best settings, of equals those of lower loss; the first if all failed."""
    metric = trials[0][0].metric
    sign = -1.0 if results.metrics[trials[0][0].name][metric].higher_is_better else 1.0

    def rank(trial: tuple[Arm, list[CellResult]]) -> tuple[float, float]:
        if not trial[1] or any(cell.failure is not None for cell in trial[1]):
            return math.inf, math.inf
        value = fmean(cell.metrics[metric] for cell in trial[1])
        return (math.inf if math.isnan(value) else sign * value, fmean(cell.loss for cell in trial[1]))

    return min(trials, key=rank)[0]


def _chosen(trials: Sequence[tuple[Arm, list[CellResult]]], results: StudyResults) -> Arm:
    """Returns the arm with its best settings and the ends of what it tried, or the reason why it has none."""
    best = _best(trials, results)
    edges = {path: end for path in best.tuned if (end := _edge(path, best, trials))}
    outcomes = [cell for _, cells in trials for cell in cells]
    if outcomes and all(cell.failure is not None for cell in outcomes):
        return replace(best, failure=f"every trial failed: {outcomes[0].failure}")
    return replace(best, edges=edges)


def _numbers(path: str, trials: Sequence[tuple[Arm, Any]]) -> list[float]:
    """Returns the numbers tried for a path in rising order; none if they are not numbers, or only one."""
    values = {arm.tuned[path] for arm, _ in trials if type(arm.tuned.get(path)) in (int, float)}
    return (
        sorted(values)
        if len(values) > 1 and len(values) == len({str(arm.tuned[path]) for arm, _ in trials})
        else []
    )


def _edge(path: str, best: Arm, trials: Sequence[tuple[Arm, Any]]) -> str:
    """Returns at which end of the numbers tried an arm's choice is, if at any."""
    numbers = _numbers(path, trials)
    if not numbers or best.tuned[path] not in (numbers[0], numbers[-1]):
        return ""
    return "smallest" if best.tuned[path] == numbers[0] else "largest"


def _beyond(best: Arm, trials: Sequence[tuple[Arm, Any]], rows: Any) -> list[Arm]:
    """Returns the arm with a number beyond each end of a range that it has chosen, if it has chosen any."""
    found = []
    for path in best.tuned:
        numbers = _numbers(path, trials)
        ends = {"smallest": numbers[:2], "largest": numbers[:-3:-1]}.get(_edge(path, best, trials))
        if ends:
            end, inner = ends
            value = end * end / inner if min(end, inner) > 0 else 2 * end - inner
            value = float(f"{value:.6g}") if isinstance(end, float) else round(value)
            with suppress(ConfigurationError):  # no arm may have this number, such as a dropout of 1.2
                found += [_with(best, path, value, rows)] if value != end else []
    return found


def _with(arm: Arm, path: str, value: float, rows: Any) -> Arm:
    """Returns an arm with another number of a tuned setting."""
    known = yaml.safe_load(dump(arm.resolved.task))
    task = resolve(known, [f"{path}={value!r}"], arm.resolved.registry, in_memory=rows is not None)
    return replace(arm, tuned={**arm.tuned, path: value}, resolved=validate(task, rows))


def _record(arm: Arm, cell: CellResult) -> Record:
    """Returns what a report keeps of a trial."""
    known: Mapping[str, Any] = cell.record()
    kept = ("seed", "loss", "metrics", "seconds", "diverged", "failure")
    return {"arm": arm.name, "tuned": arm.tuned, **{key: known[key] for key in kept}}
