"""One training from beginning to end: settings, data, model, updates, final evaluation, run directory."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Literal

from plugformer.configuration import ResolvedTask, dump, resolve, validate
from plugformer.data.preparation import PreparedData, prepare
from plugformer.distributed import Processes
from plugformer.evaluation.report import Report
from plugformer.evaluation.self_check_result import SelfCheck
from plugformer.model.assembly import assemble
from plugformer.registry import Registry
from plugformer.runs.directory import RunDirectory
from plugformer.runs.files import refuse_links
from plugformer.runs.loading import TrainedModel
from plugformer.runs.lock import make_lock, refuse_changes
from plugformer.runs.requirements import resolve_run
from plugformer.runs.self_check import check_itself
from plugformer.runs.training_lock import training_lock
from plugformer.runs.vocabularies import Vocabularies, load_vocabularies, save_vocabularies
from plugformer.training.fitting import fit

Notify = Callable[[str], None]
Final = Literal["test", "validation"]


def train(
    task: str,
    *,
    overrides: Sequence[str] = (),
    out: Path | None = None,
    registry: Registry | None = None,
    observers: Iterable[object] = (),
    notify: Notify = print,
    final: Final = "test",
) -> Report:
    """Trains a task's model, evaluates it on the test splits and saves everything in a run directory.

    Args:
        task: Name of a task, or a task file.
        overrides: `KEY=VALUE` settings on top of the task.
        out: The run directory; `runs/TASK-DATE-TIME` if None.
        registry: What is installed; discovered if None.
        observers: Objects with hook implementations, besides those of installed plugins.
        notify: Receives messages for people, a line each.
        final: What the saved model is measured on in the end: the test splits, or validation alone, as for
            trainings that settings are chosen by.

    Returns:
        The metrics on the `test` split, with those on further test splits beside them; on `validation` if the
        data have no test split.

    Raises:
        ConfigurationError: The task or an override is wrong; nothing has been read or written.
        DataError: The examples cannot be read.
        RunError: The run directory exists already, or cannot be written.
        InterruptedRunError: Somebody asked to stop; everything so far is saved.
    """
    started = time.perf_counter()
    processes = Processes.join()
    notify = notify if processes.main else _say_nothing
    with processes.together():
        resolved = _dealt_out(validate(resolve(task, overrides, registry)), processes, notify)
        for notice in resolved.notices:
            notify(notice)
    path = processes.on_main(lambda: _new_directory(task, out))
    data = _prepare(resolved, None, notify, processes)
    vocabularies = Vocabularies.of(data)
    model = assemble(resolved.task, vocabularies.sizes, resolved.registry)
    trained = TrainedModel(path, resolved.task, model, vocabularies, resolved.registry)
    processes.on_main(lambda: _make_directory(path, resolved, data, vocabularies))
    with training_lock(path, processes):
        report = _finish(trained, data, observers, notify, processes, final)
    return replace(report, seconds=time.perf_counter() - started)


def resume(
    run: Path,
    *,
    allow_changes: bool = False,
    registry: Registry | None = None,
    observers: Iterable[object] = (),
    notify: Notify = print,
    final: Final = "test",
) -> Report:
    """Goes on with a run after its last checkpoint, to the same end as if it had not been interrupted.

    Args:
        run: The run directory.
        allow_changes: Go on although components have changed since the run began; its lock then says so.
        registry: What is installed; discovered if None.
        observers: Objects with hook implementations, besides those of installed plugins.
        notify: Receives messages for people, a line each.
        final: As of `train`.

    Returns:
        As `train` does.

    Raises:
        RunError: There is no such run, it is damaged, another process trains it, a component of it is not
            installed, or a component or the data changed since it began.
        InterruptedRunError: Somebody asked to stop; everything so far is saved.
    """
    started = time.perf_counter()
    processes = Processes.join()
    notify = notify if processes.main else _say_nothing
    with processes.together():
        directory = RunDirectory.open(run)
        refuse_links(run)
    with training_lock(run, processes):
        with processes.together():
            resolved = resolve_run(directory, registry)
            vocabularies = load_vocabularies(directory, resolved.task, resolved.registry)
        data = _prepare(resolved, vocabularies, notify, processes)
        with processes.together():
            before, now = directory.lock(), make_lock(resolved.task, resolved.registry, data.hashes)
            changed = refuse_changes(before, now, allow=allow_changes)
        if changed:
            notify("\n  ".join(["going on with other components:", *changed]))
            changes = [*before.get("changes", []), *changed]
            processes.on_main(lambda: directory.write_lock({**now, "changes": changes}))
        model = assemble(resolved.task, vocabularies.sizes, resolved.registry)
        trained = TrainedModel(run, resolved.task, model, vocabularies, resolved.registry)
        report = _finish(trained, data, observers, notify, processes, final)
    return replace(report, seconds=time.perf_counter() - started)


def _say_nothing(_: str) -> None:
    """Stands for `notify` in all processes but the main one."""


def _dealt_out(resolved: ResolvedTask, processes: Processes, notify: Notify) -> ResolvedTask:
    """Returns the task with a multiple of the processes as its batches of an update, so that none is idle."""
    training = resolved.task.training
    batches = -(-training.accumulation // processes.count) * processes.count
    if batches == training.accumulation:
        return resolved
    notify(
        f"training.accumulation is {batches} instead of {training.accumulation}: "
        f"{processes.count} processes share the batches of an update"
    )
    training = training.model_copy(update={"accumulation": batches})
    return replace(resolved, task=resolved.task.model_copy(update={"training": training}))


def _new_directory(task: str, out: Path | None) -> Path:
    """Returns where a new run will be."""
    path = out or Path("runs", f"{Path(task).stem}-{datetime.now().astimezone():%Y%m%d-%H%M%S}")
    RunDirectory.require_possible(path)
    return path


def _make_directory(
    path: Path, resolved: ResolvedTask, data: PreparedData, vocabularies: Vocabularies
) -> None:
    """Writes what a run begins with."""
    with RunDirectory.making(path) as directory:
        # A run never names a manifest: loading it would import what its directory says, not what is there.
        directory.write_task(dump(resolved.task.model_copy(update={"registry": None})))
        directory.write_lock(make_lock(resolved.task, resolved.registry, data.hashes))
        save_vocabularies(vocabularies, directory)


def _prepare(
    resolved: ResolvedTask, vocabularies: Vocabularies | None, notify: Notify, processes: Processes
) -> PreparedData:
    """Reads the data, and says what was read and what was left out."""
    tokenizers = None if vocabularies is None else vocabularies.tokenizers
    data = processes.first_on_each_machine(lambda: prepare(resolved.task, resolved.registry, tokenizers))
    for notice in data.notices:
        notify(notice)
    for name, count in data.lengths.items():
        notify(f"{name}: {count}")
    return data


def _finish(
    trained: TrainedModel,
    data: PreparedData,
    observers: Iterable[object],
    notify: Notify,
    processes: Processes,
    final: Final,
) -> Report:
    """Trains to the end, then evaluates the saved model on every test split (or else validation)."""
    fit(trained, data, observers, notify, processes)
    directory = RunDirectory(trained.directory)
    reports = []
    tests = sorted(name for name in data.splits if name.startswith("test")) if final == "test" else []
    for name in tests or ["validation"]:
        notify(f"evaluating on {name} ({len(data.splits[name]):,} examples)")
        report = trained.report(data.splits[name], name, processes)
        reports.append(report)
        processes.on_main(partial(directory.write_evaluation, name, report.as_json()))
    check = processes.on_main(lambda: _checked(trained, data))
    return replace(reports[0], others=reports[1:], self_check=check)


def _checked(trained: TrainedModel, data: PreparedData) -> SelfCheck:
    """Checks the saved model, and keeps the result."""
    check = check_itself(trained, data.splits["validation"])
    RunDirectory(trained.directory).write_self_check(check.as_json())
    return check
