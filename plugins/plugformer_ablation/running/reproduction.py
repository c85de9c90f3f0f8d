"""A study trained again from its report: how far scores are apart, and whether each verdict stands."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError, DataError, RegistryError, RunError, nearest
from plugformer.registry import Registry
from plugformer.runs import read_json
from plugformer.validation import validate
from plugformer_ablation.design.arms import Arm, by_stage
from plugformer_ablation.design.matching import read_data
from plugformer_ablation.design.study import flat
from plugformer_ablation.judging.findings import find
from plugformer_ablation.judging.results import REPORT, CellResult, Record, StudyResults, write
from plugformer_ablation.running.cells import make_cells
from plugformer_ablation.running.executors import Executor
from plugformer_ablation.running.running import made_of, study_lock, train_cells

REPRODUCTION = "reproduction.json"


def reproduce(
    report: Path,
    out: Path,
    registry: Registry,
    executor: Executor,
    console: Console,
    *,
    arms: Sequence[str] = (),
    seeds: Sequence[int] = (),
) -> Record:
    """Trains the cells of a report again, from what it records, and compares scores and verdicts.

    Settings that tuning or matching chose are those of the report; nothing is chosen again. Trainings have as
    many threads as they had, which decide how sums are rounded. Verdicts are judged with the new cells in
    place of the old ones. The record is also written to `reproduction.json`.

    Args:
        report: The folder of a study with `report.json` and `cells.npz`.
        out: Another folder, for the cells; what is finished there is not trained again.
        registry: What is installed.
        executor: It trains the cells.
        console: It shows the progress.
        arms: Names of those that are trained; all if empty.
        seeds: Those that are trained; all if empty.

    Raises:
        PlugformerError: The report is damaged or does not have an arm or a seed, a component or data are not
            here, or the study was one of a Python session.
    """
    if out.resolve() == report.resolve():
        raise RunError(f"{out} has the cells of the report: give another --out")
    notify = partial(console.print, markup=False, highlight=False)
    results = StudyResults.load(report, registry)
    _refuse_foreign(results, report)
    names = {*_chosen("--arms", arms, [arm["name"] for arm in results.arms])}
    wanted = _chosen("--seeds", map(str, seeds), map(str, results.study["seeds"]))
    for record in reversed(results.arms):  # what starts from an arm comes after it
        names |= {record["start"]} if record["name"] in names else set()
    here = {arm.name: arm for arm in _arms(results, names, registry, notify)}
    chosen = [old for old in results.cells if old.arm in names and str(old.seed) in wanted]
    differs = list(_differences(results.made_of, made_of([*here.values()])))
    differs += _set_threads(executor, {old.threads for old in chosen if old.failure is None})
    for line in differs:
        notify(f"other than in the report: {line}")
    trained: dict[tuple[str, int], CellResult] = {}
    with study_lock(out):
        for stage in by_stage([*here.values()]):
            cells = []
            for arm in stage:
                own = [old.seed for old in chosen if old.arm == arm.name]
                cells += make_cells(arm, own, out, here)
            cells.sort(key=lambda cell: cell.seed)
            finished = train_cells(cells, out, results.metrics, executor, console)
            trained |= {(cell.arm, cell.seed): cell for cell in finished}
    again = replace(results, cells=tuple(trained.get((old.arm, old.seed), old) for old in results.cells))
    record = {
        "report": str(report / REPORT),
        "differs": differs,
        "recorded_cells": len(results.cells),
        "cells": [
            _compared(old, new, here[new.arm].metric)
            for old, new in zip(results.cells, again.cells, strict=True)
            if old is not new
        ],
        "verdicts": _verdicts(read_json(report / REPORT), find(again).record),
    }
    write(out / REPRODUCTION, json.dumps(record, ensure_ascii=False, indent=2))
    return record


def reproduction_text(record: Record) -> str:
    """Returns for a terminal how far the score of each cell is from the recorded one, and what stands."""
    lines = []
    for cell in record["cells"]:
        told = "bit by bit as recorded" if cell["same"] else f"recorded {cell['recorded']}"
        outcome = f"failed: {cell['failure']}" if cell["failure"] else f"{cell['now']}, {told}"
        lines.append(f"{cell['arm']}, seed {cell['seed']}: {outcome}")
    if len(record["cells"]) < record["recorded_cells"]:
        told = f"{len(record['cells'])} of {record['recorded_cells']} trainings made again"
        lines.append(f"with {told}, the others as recorded:")
    for each in record["verdicts"]:
        now = "stands" if each["stands"] else f"does not stand, it is {each['now']}"
        lines.append(f"{each['arm']}: {each['recorded']}: {now}")
    return "\n".join(lines)


def _refuse_foreign(results: StudyResults, report: Path) -> None:
    """Refuses a study of what only a Python session had, and a report that brings code of its own."""
    tasks = [each["task"] for arm in results.arms for each in (arm, *arm["choices"])]
    if any({"registry", "extends"} & task.keys() for task in tasks):
        raise RunError(f"{report / REPORT} was changed: an arm's task names a manifest or another task")
    components = results.made_of["components"].items()
    classes = [name for name, lock in components if lock["distribution"] == "session"]
    if any(arm["task"]["data"]["name"] == "memory" for arm in results.arms):
        classes.append("rows in memory")
    if classes:
        raise RunError(
            f"{report} cannot be reproduced: {', '.join(classes)} were of a Python session, which is gone; "
            "put classes into a package, and rows into files, and run the study again"
        )


def _chosen(option: str, wanted: Iterable[str], known: Iterable[str]) -> list[str]:
    """Returns what was wanted, or all; raises ConfigurationError if the report does not have it."""
    names, chosen = list(known), list(wanted)
    for name in {*chosen} - {*names}:
        hint = f"{nearest(name, names)}\n  known: {', '.join(names)}"
        raise ConfigurationError(f"{option} {name}  is not in the report{hint}")
    return chosen or names


def _arms(
    results: StudyResults, names: Collection[str], registry: Registry, notify: Callable[[str], None]
) -> Iterator[Arm]:
    """Yields arms of a report with the hashes of their data as they are here."""
    known: dict[str, dict[str, str]] = {}
    for record in [arm for arm in results.arms if arm["name"] in names]:
        kept = {key: record[key] for key in record.keys() - {"task", "notes", "cost", "edges", "choices"}}
        try:
            arm = Arm(**kept, resolved=validate(resolve(record["task"], registry=registry)))
            data = json.dumps([record["task"][block] for block in ("type", "data")])
            if data not in known:
                known[data] = read_data(arm.resolved, notify).hashes
            arm = replace(arm, hashes=known[data])
            choices: dict[int, Arm] = {}
            for choice in record["choices"]:
                task = validate(resolve(choice["task"], registry=registry))
                own = replace(arm, tuned=choice["tuned"], resolved=task)
                choices |= dict.fromkeys(choice["seeds"], own)
            yield replace(arm, choices=choices)
        except (ConfigurationError, DataError, RegistryError) as error:
            where = f"in the arm {record['name']!r} of the report"
            if (declared := results.study["registry"]) and not registry.local:
                names = ", ".join([declared] if isinstance(declared, str) else declared)
                where += f", whose study had local manifests: give them with --registry ({names})"
            raise type(error)(f"{error}\n  {where}") from error


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yields what the arms here are made of that the report does not have in the same form."""
    then, today = flat(before), flat(now)
    for key, value in today.items():
        if then.get(key) != value:
            yield f"{key}: {str(value)[:12]} for {str(then.get(key))[:12]}"


def _set_threads(executor: Executor, recorded: Collection[int]) -> Iterator[str]:
    """Gives each training as many threads as it had; yields a line if that is unknown, or not one number."""
    if len(recorded) == 1 and all(recorded):
        (executor.threads,) = recorded
    elif recorded:
        before = " and ".join(str(number or "unknown") for number in sorted(recorded))
        yield f"threads of each training: {executor.threads} for {before}; --workers decides them"


def _compared(old: CellResult, new: CellResult, metric: str) -> Record:
    """Returns the score of a cell, as recorded and now; `same` if all metrics and the loss are bit by bit."""
    return {
        "arm": new.arm,
        "seed": new.seed,
        "recorded": old.metrics.get(metric),
        "now": new.metrics.get(metric),
        "same": not new.failure and (old.metrics, old.loss) == (new.metrics, new.loss),
        "failure": new.failure,
    }


def _verdicts(recorded: Record, now: Record) -> list[Record]:
    """Returns for each comparison the recorded verdict, the one now, and whether they are the same."""
    before, after = (
        {each["arm"]: each["verdict"] for key in ("comparisons", "overall") for each in record[key]}
        for record in (recorded, now)
    )
    return [
        {"arm": arm, "recorded": before.get(arm), "now": verdict, "stands": before.get(arm) == verdict}
        for arm, verdict in after.items()
    ]
