"""Tuning: every arm, or every seed of it, takes the best on validation of the settings that it tries."""

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError
from plugformer.registry import Kind
from plugformer.validation import validate
from plugformer_ablation.design.arms import Arm, by_stage, context_of, written
from plugformer_ablation.design.matching import matched
from plugformer_ablation.design.study import Study
from plugformer_ablation.judging.results import CellResult, Record, StudyResults
from plugformer_ablation.running.cells import Cell, make_cells
from plugformer_ablation.running.costs import computation

Train = Callable[[Sequence[Cell]], list[CellResult]]
"""Trains cells as far as they have no result, and returns the results."""

Trial = tuple[Arm, list[CellResult]]
"""An arm with settings to try, and what its trainings gave; nothing if it was not trained to its end."""


class Try(NamedTuple):
    """An arm with settings to try, and the seeds by which they are chosen."""

    arm: Arm
    seeds: tuple[int, ...]

    @property
    def choice(self) -> tuple[str, tuple[int, ...]]:
        """What it is tried for: there is one choice for each arm and these seeds."""
        return self.arm.name, self.seeds


def tuned(
    arms: Sequence[Arm],
    study: Study,
    results: StudyResults,
    out: Path,
    train: Train,
    rows: Any,
    seeds: Sequence[int] = (),
    before: Mapping[str, Arm] | None = None,
) -> tuple[list[Arm], list[Record]]:
    """Returns each arm with the settings that it chooses, and a record of every trial.

    If the study says so, every seed chooses for itself, from trainings with this seed alone. What it chooses
    then varies from seed to seed as all else that its luck decides, and verdicts, whose error is that over
    seeds, are about the arm with its tuning: the "ideal" estimator of Bouthillier et al. (2021), section 3,
    https://arxiv.org/abs/2103.03098.

    A choice at the end of a range tries the next number beyond, as often as the study allows.

    Args:
        arms: Each with all settings that it tries first.
        study: The study.
        results: Its metrics.
        out: Its folder.
        train: What trains cells.
        rows: Examples in memory, or None.
        seeds: Those of the verdict, if they choose for themselves.
        before: The arms by name, with what earlier seeds have chosen.

    Raises:
        ConfigurationError: Trainings are to be shortened, and would not be the same on a smaller scale.
    """
    if study.tuning.strategy == "halving":
        _check_lengths(arms, study)
    choosing = study.tuning.choosing(seeds)
    chosen = {**(before or {})}
    records: list[Record] = []

    def run(waiting: Sequence[Try], share: float = 1.0) -> list[Trial]:
        trials = _trials(waiting, study, out, train, chosen)
        records.extend(_record(arm, cell, share) for arm, cells in trials for cell in cells)
        return trials

    for stage in by_stage(arms):
        every = [Try(arm, group) for group in choosing for arm in stage]
        tried: dict[Any, list[Trial]] = {each.choice: [] for each in every}
        values = _values(stage) if study.tuning.strategy == "coordinate" else {}
        waiting = _first(every, study, results, run)
        if study.tuning.strategy == "halving":
            for each in every:
                tried[each.choice].append((each.arm, []))  # it counts for the ends of what was tried
        extended: Counter[Any] = Counter()
        while waiting:
            for each, trial in zip(waiting, run(waiting), strict=True):
                tried[each.choice].append(trial)
            waiting = []
            for (name, group), trials in tried.items():
                best = _best(trials, results)
                further = _changed(best, trials, values.get(name, {}), rows, stage, study)
                if not further and extended[name, group] < study.tuning.extend:
                    extended[name, group] += 1
                    further = _matched(_beyond(best, trials, rows), stage, study)
                waiting += [Try(arm, group) for arm in further]
        for (name, group), trials in tried.items():
            best = _chosen(trials, results)
            if study.tunes_by_seed and best.tuned:
                known = chosen.get(name) or replace(trials[0][0], tuned={})
                best = replace(known, choices={**known.choices, group[0]: best})
            chosen[name] = best
    names = dict.fromkeys(arm.name for arm in arms)
    _mark(records, chosen)
    return [chosen[name] for name in names], records


def _mark(records: Sequence[Record], chosen: Mapping[str, Arm]) -> None:
    """Marks the trials whose trainings are those of the verdict."""
    for record in records:
        choice = chosen[record["arm"]].choices.get(record["seed"])
        whole = record["share"] == 1
        record["decides"] = whole and choice is not None and record["tuned"] == choice.tuned


def _matched(further: Sequence[Arm], arms: Sequence[Arm], study: Study) -> list[Arm]:
    """Returns further settings with their costs, and with what the study makes equal.

    Without those that cannot be equal. Equal times are measured for all arms in the beginning: of further
    settings those remain that compute what a measured one of the arm computes, such as other rates.
    """
    if study.match == "time":
        measured = [(arm.name, computation(arm), arm) for arm in arms]
        alike = (
            (arm, known)
            for arm in further
            for name, computed, known in measured
            if (name, computed) == (arm.name, computation(arm))
        )
        steps = {id(arm): (arm, known) for arm, known in alike}
        return [
            replace(arm.with_steps(known.resolved.task.training.steps or 0), counted=known.counted)
            for arm, known in steps.values()
        ]
    firsts = {context_of(arm.values): arm for arm in reversed(arms)}
    found = []
    for arm in further:
        with suppress(ConfigurationError):
            found += matched([firsts[context_of(arm.values)], arm], study, lambda _: None)[1:]
    return found


def _first(
    tries: Sequence[Try],
    study: Study,
    results: StudyResults,
    run: Callable[[Sequence[Try], float], list[Trial]],
) -> list[Try]:
    """Returns the settings that are tried first with whole trainings.

    By coordinates those that differ from the first ones in the first setting alone. Halving trains all of
    them shortly, and with twice the updates the better half of each arm, so that of any number one is left
    for a whole training: Jamieson and Talwalkar (2016), section 3,
    https://proceedings.mlr.press/v51/jamieson16.html.
    """
    waiting = list(tries)
    groups = {choice: list(group) for choice, group in groupby(tries, key=lambda each: each.choice)}
    if study.tuning.strategy == "coordinate":
        alike = {choice: dict(list(first.arm.tuned.items())[1:]) for choice, (first, *_) in groups.items()}
        return [each for each in tries if dict(list(each.arm.tuned.items())[1:]) == alike[each.choice]]
    if study.tuning.strategy == "grid":
        return waiting
    rungs = {choice: (len(group) - 1).bit_length() for choice, group in groups.items()}
    for rung in range(max(rungs.values()), 0, -1):
        short = [each for each in waiting if rungs[each.choice] >= rung]
        trials = run([each._replace(arm=_shortened(each.arm, 2**rung)) for each in short], 0.5**rung)
        kept = [id(each) for each in waiting if rungs[each.choice] < rung]
        for _, group in groupby(zip(short, trials, strict=True), key=lambda pair: pair[0].choice):
            ranked = sorted(group, key=lambda pair: _rank(pair[1], results))
            kept += [id(each) for each, _ in ranked[: -(-len(ranked) // 2)]]
        waiting = [each for each in waiting if id(each) in kept]
    return waiting


def _check_lengths(arms: Sequence[Arm], study: Study) -> None:
    """Refuses trainings without a number of updates, and schedules of which a part keeps its length."""
    for arm in arms:
        training = arm.resolved.task.training
        schedule = vars(arm.resolved.create(Kind.SCHEDULE, training.schedule))
        fixed = {key: schedule.get(key, 0) for key in ("warmup_steps", "decay_steps")}
        message = ""
        if training.steps is None:
            message = "needs numbers of updates: add `training.steps: NUMBER` to `set`"
        for key, updates in fixed.items():
            if updates and isinstance(updates, int):
                message = (
                    f"shortens trainings, but not the {updates} updates of `training.schedule.{key}` "
                    f"({training.schedule.name}, arm {arm.name!r}), so that short ones follow another "
                    "schedule: write a share of the updates there, such as 0.1, or choose another strategy"
                )
        if message:
            raise study.mistakes([(("tuning", "strategy"), message)])


def _shortened(arm: Arm, times: int) -> Arm:
    """Returns an arm with fewer updates, for its first trials."""
    training = arm.resolved.task.training
    steps, every = max(1, (training.steps or 0) // times), training.evaluate_every
    changes = {"steps": steps, "evaluate_every": every and min(every, steps)}
    changed = training.model_copy(update=changes)
    return arm.with_task(arm.resolved.task.model_copy(update={"training": changed}))


def _values(arms: Sequence[Arm]) -> dict[str, dict[str, list[Any]]]:
    """Returns by the name of an arm and the path of a setting the values that the study gives."""
    values: dict[str, dict[str, list[Any]]] = {arm.name: {} for arm in arms}
    for arm in arms:
        for path, value in arm.tuned.items():
            known = values[arm.name].setdefault(path, [])
            known += [value] if value not in known else []
    return values


def _changed(
    best: Arm,
    trials: Sequence[Trial],
    values: Mapping[str, list[Any]],
    rows: Any,
    stage: Sequence[Arm],
    study: Study,
) -> list[Arm]:
    """Returns the best settings with other values of one of them, the first of which some are untried.

    Each setting in turn is coordinate descent, as in Wen et al. (2025), section 3,
    https://arxiv.org/abs/2509.02046.
    """
    known = [arm.tuned for arm, _ in trials]
    for path, tried in values.items():
        found = []
        for value in tried:
            if {**best.tuned, path: value} not in known:
                with suppress(ConfigurationError):  # no arm may have these values together
                    found.append(_with(best, path, value, rows))
        if found := _matched(found, stage, study):
            return found
    return []


def _trials(
    tries: Sequence[Try], study: Study, out: Path, train: Train, chosen: Mapping[str, Arm]
) -> list[Trial]:
    """Returns what arms with settings to try score, with the seeds that choose.

    What they start from, as far as it has been `chosen`, is trained with the same seeds before.
    """
    starts = dict.fromkeys((arm.start, seeds) for arm, seeds in tries if arm.tuned and arm.start)
    if starts:
        train([cell for name, seeds in starts for cell in make_cells(chosen[name], seeds, out, chosen)])
    made = [
        make_cells(arm, seeds, out, chosen, tried=arm.tried, by_seed=study.tunes_by_seed) if arm.tuned else []
        for arm, seeds in tries
    ]
    finished = iter(train([cell for cells in made for cell in cells]))
    return [(arm, [next(finished) for _ in cells]) for (arm, _), cells in zip(tries, made, strict=True)]


def _best(trials: Sequence[Trial], results: StudyResults) -> Arm:
    """Returns the arm with its best settings; the first if all failed."""
    return min(trials, key=lambda trial: _rank(trial, results))[0]


def _rank(trial: Trial, results: StudyResults) -> tuple[float, float]:
    """Returns what is smaller for a better trial, of equals for one of lower loss."""
    arm, cells = trial
    if not cells or any(cell.failure is not None for cell in cells):
        return math.inf, math.inf
    sign = -1.0 if results.metrics[arm.name][arm.metric].higher_is_better else 1.0
    value = fmean((cell.validation or cell.metrics)[arm.metric] for cell in cells)
    return (math.inf if math.isnan(value) else sign * value, fmean(cell.loss for cell in cells))


def _chosen(trials: Sequence[Trial], results: StudyResults) -> Arm:
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
    every = {str(arm.tuned[path]) for arm, _ in trials}
    return sorted(values) if 1 < len(values) == len(every) else []


def _edge(path: str, best: Arm, trials: Sequence[tuple[Arm, Any]]) -> str:
    """Returns at which end of the numbers tried an arm's choice is, if at any."""
    numbers, chosen = _numbers(path, trials), best.tuned[path]
    if not numbers or chosen == numbers[0] == 0:  # below 0 there is nothing to try
        return ""
    return {numbers[0]: "smallest", numbers[-1]: "largest"}.get(chosen, "")


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


def _with(arm: Arm, path: str, value: Any, rows: Any) -> Arm:
    """Returns an arm with another value of a tuned setting."""
    known = written(arm.resolved.task)
    task = resolve(known, [f"{path}={json.dumps(value)}"], arm.resolved.registry, in_memory=rows is not None)
    return replace(arm, tuned={**arm.tuned, path: value}, resolved=validate(task, rows))


def _record(arm: Arm, cell: CellResult, share: float) -> Record:
    """Returns what a report keeps of a trial that was trained with a share of all updates."""
    known: Mapping[str, Any] = cell.record()
    kept = {key: known[key] for key in ("seed", "loss", "seconds", "diverged", "failure")}
    metrics = known["validation"] or known["metrics"]
    return {"arm": arm.name, "tuned": arm.tuned, "share": share, "metrics": metrics, **kept}
