"""One training from beginning to end: settings, data, model, updates, final evaluation, run directory."""

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from accelerate import PartialState

from plugformer.configuration import dump, resolve
from plugformer.configuration.layers import short_name
from plugformer.configuration.overrides import Changes
from plugformer.configuration.task import DEFAULT_BATCH_TOKENS
from plugformer.data.preparation import PreparedData
from plugformer.data.processor import Processor, save_tokenizers
from plugformer.distributed import Processes, use_device
from plugformer.errors import ConfigurationError, RunError
from plugformer.evaluation.evaluator import unscored
from plugformer.evaluation.report import SelfCheck
from plugformer.experiment import Experiment, by_split
from plugformer.hooks.manager import prepared_data
from plugformer.model import build
from plugformer.registry import Kind, Registry
from plugformer.runs.checkpoint import newest_step
from plugformer.runs.directory import RunDirectory, training_lock
from plugformer.runs.loading import TrainedModel, read_processor
from plugformer.runs.lock import (
    DURATION,
    check_overrides,
    environment,
    make_lock,
    other_runs,
    refuse_changes,
    resolve_run,
)
from plugformer.runs.store import refuse_links, write_json
from plugformer.training.fitting import epochs_of, fit, updates
from plugformer.training.strategy import precision
from plugformer.validation import validate

Notify = Callable[[str], None]
Final = Literal["test", "validation"]


_THREAD = threading.RLock()


@contextmanager
def one_thread() -> Iterator[None]:
    """Keeps other threads of this process from training: all draw from the same random generators.

    Raises:
        RunError: Another thread trains.
    """
    if not _THREAD.acquire(blocking=False):
        raise RunError(
            "another thread of this process is training, and both would draw from the same random "
            "generators: train one after the other, or each in a process of its own"
        )
    try:
        yield
    finally:
        _THREAD.release()


@one_thread()
def train(
    task: str | Path | Mapping[str, Any],
    *,
    data: Any = None,
    components: Mapping[str, Mapping[str, type]] | None = None,
    overrides: Changes = (),
    out: Path | str | None = None,
    device: str | torch.device | None = None,
    registry: Registry | None = None,
    observers: Iterable[object] = (),
    notify: Notify = print,
    final: Final = "test",
) -> TrainedModel:
    """Trains a task's model, evaluates it on the test splits and saves everything in a run directory.

    Example:
        `train({"extends": "dates", "model": {"attention": MyAttention}}, out="runs/mine")`

    Args:
        task: Name of a task, a task file, or a dictionary with the keys of a task file.
        data: Rows in memory in place of the task's files: a list of dictionaries, a dictionary of columns, a
            `datasets.Dataset` or a pandas data frame; or a dictionary of these by split: `train`,
            `validation` and any that begin with `test`. Rows without splits are divided by `data.split`.
        components: Classes by kind and name, which the task may then name: `{"attention": {"mine": Mine}}`.
        overrides: Settings on top of the task: `KEY=VALUE`, or a nested dictionary.
        device: Where to train: `cpu`, `cuda`, `cuda:1`, `mps`; by default the best one, or the choice of the
            launcher of several processes.
        out: The run directory; `runs/TASK-DATE-TIME` if None.
        registry: What is installed; discovered if None.
        observers: Objects with hook implementations, besides those of installed plugins.
        notify: Receives messages for people, a line each.
        final: What the saved model is measured on in the end: the test splits, or validation alone, as for
            trainings that settings are chosen by.

    Returns:
        The trained model. Its `report` has the metrics on the `test` split, with those on further test splits
        as `report.others`; on `validation` if the data have no test split.

    Raises:
        ConfigurationError: The task or an override is wrong; nothing has been read or written.
        DataError: The examples cannot be read.
        RunError: The run directory exists already, or cannot be written; or another thread of this process is
            training.
        InterruptedRunError: Somebody asked to stop; everything so far is saved.
    """
    started = time.perf_counter()
    use_device(device)
    processes = Processes.join()
    notify = notify if processes.main else lambda _: None
    rows = by_split(data)
    with processes.raise_everywhere():
        known = (registry or Registry.discover()).with_components(components or {})
        experiment = validate(resolve(task, overrides, known, in_memory=data is not None), rows)
        experiment = _round_up_batches(_with_batch_tokens(experiment), processes, notify)
        where = environment(PartialState().device, processes.count, precision(experiment.task.training))
        for notice in experiment.notices:
            notify(notice)
    path = processes.on_main(lambda: _new_directory("task" if isinstance(task, Mapping) else str(task), out))
    prepared = _prepare(experiment, None, notify, processes)
    with processes.raise_everywhere():
        experiment.raise_for(unscored(experiment, prepared.splits["validation"]))
    model = build(experiment.spec, prepared.processor.sizes)
    trained = TrainedModel(path, experiment, model, prepared.processor)
    processes.on_main(lambda: _make_directory(path, experiment, prepared, where))
    try:
        with training_lock(path, processes):
            _finish(trained, prepared, observers, notify, processes, final, started)
    except BaseException:
        if processes.main:
            RunDirectory(path).remove_if_begun_only()
        raise
    return trained


@one_thread()
def resume(
    run: Path | str,
    *,
    data: Any = None,
    components: Mapping[str, Mapping[str, type]] | None = None,
    overrides: Sequence[str] = (),
    allow_changes: bool = False,
    device: str | torch.device | None = None,
    registry: Registry | None = None,
    observers: Iterable[object] = (),
    notify: Notify = print,
    final: Final = "test",
) -> TrainedModel:
    """Resumes a run after its last checkpoint; the end is the same as without the interruption.

    Args:
        run: The run directory.
        data: The rows, if the run was trained on rows in memory.
        components: Classes that the run was trained with and that no manifest names, by kind and name.
        overrides: `KEY=VALUE` settings: `training.steps`, `training.epochs` or `training.early_stopping`, to
            train longer than the run's task says. Task and lock record it.
        allow_changes: Resume although components have changed since the run began; its lock then says so.
        device: Where to train, as for `train`.
        registry: What is installed; discovered if None.
        observers: Objects with hook implementations, besides those of installed plugins.
        notify: Receives messages for people, a line each.
        final: As for `train`.

    Returns:
        The trained model, as from `train`.

    Raises:
        ConfigurationError: An override is of something else, or less than what has been trained already.
        RunError: There is no such run, it is damaged, another process trains it, a component of it is not
            installed, or a component or the data changed since it began; or another thread of this process is
            training.
        InterruptedRunError: Somebody asked to stop; everything so far is saved.
    """
    started = time.perf_counter()
    run = Path(run)
    use_device(device)
    processes = Processes.join()
    notify = notify if processes.main else lambda _: None
    with processes.raise_everywhere():
        directory = RunDirectory.open(run)
        refuse_links(run)
    with training_lock(run, processes):
        with processes.raise_everywhere():
            known = (registry or Registry.discover()).with_components(components or {})
            experiment = resolve_run(
                directory, known, check_overrides(overrides, DURATION), rows=by_split(data)
            )
            processor = read_processor(directory, experiment)
        prepared = _prepare(experiment, processor, notify, processes)
        with processes.raise_everywhere():
            now = make_lock(experiment, prepared.hashes)
            before = directory.lock()
            changed = refuse_changes(before, now, allow=allow_changes)
        if changed:
            notify("\n  ".join(["resuming with changed components:", *changed]))
        with processes.raise_everywhere():
            changed += _other_duration(directory, experiment, prepared, notify) if overrides else []
        if changed:
            processes.on_main(lambda: _record(directory, experiment, {**before, **now}, changed))
        model = build(experiment.spec, processor.sizes)
        trained = TrainedModel(run, experiment, model, processor)
        _finish(trained, prepared, observers, notify, processes, final, started)
    return trained


def _other_duration(
    directory: RunDirectory, experiment: Experiment, data: PreparedData, notify: Notify
) -> list[str]:
    """Returns the changes of a run's duration, one line each.

    Raises:
        ConfigurationError: The run has made more updates already, or its patience becomes less.
    """
    before = resolve_run(directory, experiment.registry).task.training
    settings, made = experiment.task.training, newest_step(directory.checkpoints)
    old, new = (updates(training, epochs_of(training, data))[0] for training in (before, settings))
    if new < made:
        raise ConfigurationError(f"the run has made {made} updates already, {new} are fewer; give more")
    patience, longer = (
        math.inf if training.early_stopping is None else training.early_stopping.patience
        for training in (before, settings)
    )
    if longer < patience:  # the run might have ended earlier
        raise ConfigurationError(
            f"training.early_stopping.patience: the run was trained with {patience}, {longer} is less; "
            "give more"
        )
    changes = []
    if new != old:
        changes.append(f"training: {old} -> {new} updates, after update {made}")
        schedule, width = experiment.create(Kind.SCHEDULE, settings.schedule), experiment.task.model.width
        if any(
            schedule.factor(step, steps=old, width=width) != schedule.factor(step, steps=new, width=width)
            for step in range(1, made + 1)
        ):
            notify(
                f"the schedule {settings.schedule.name!r} depends on the number of updates: up to update "
                f"{made} the learning rate was that of {old} updates, from now on it is that of {new}"
            )
    if longer != patience:
        changes.append(f"training.early_stopping.patience: {patience} -> {longer}, after update {made}")
    return changes


def _record(
    directory: RunDirectory, experiment: Experiment, lock: dict[str, Any], changed: Sequence[str]
) -> None:
    """Records the changes of a resumed run."""
    directory.write_lock({**lock, "changes": [*lock.get("changes", []), *changed]})
    directory.write_task(dump(experiment.task))


def _with_batch_tokens(experiment: Experiment) -> Experiment:
    """Returns the experiment with the size of its batches, so that the run records it."""
    training = experiment.task.training
    if training.batch_tokens is not None or training.batch_size is not None:
        return experiment
    training = training.model_copy(update={"batch_tokens": DEFAULT_BATCH_TOKENS})
    return experiment.with_task(experiment.task.model_copy(update={"training": training}))


def _round_up_batches(experiment: Experiment, processes: Processes, notify: Notify) -> Experiment:
    """Returns the experiment with a multiple of the processes as batches per update, so that none is idle."""
    training = experiment.task.training
    batches = -(-training.batches_per_update // processes.count) * processes.count
    if batches == training.batches_per_update:
        return experiment
    notify(
        f"training.batches_per_update is {batches} instead of {training.batches_per_update}: "
        f"{processes.count} processes share the batches of an update"
    )
    training = training.model_copy(update={"batches_per_update": batches})
    return experiment.with_task(experiment.task.model_copy(update={"training": training}))


def _new_directory(task: str, out: Path | str | None) -> Path:
    """Returns the directory of a new run."""
    path = Path(out or f"runs/{short_name(task)}-{datetime.now().astimezone():%Y%m%d-%H%M%S}")
    RunDirectory.require_possible(path)
    return path


def _make_directory(
    path: Path,
    experiment: Experiment,
    data: PreparedData,
    where: dict[str, Any],
) -> None:
    """Writes what a run begins with."""
    with RunDirectory.making(path) as directory:
        # A run never names a manifest: loading it would import what its directory says, not what is there.
        directory.write_task(dump(experiment.task.model_copy(update={"registry": None})))
        write_json(directory.learned, data.processor.learned)
        tokenizers = save_tokenizers(data.processor.tokenizers, directory.path)
        lock = {**make_lock(experiment, data.hashes), "tokenizers": tokenizers}
        directory.write_lock({**lock, **other_runs(experiment.task), "environment": where})


def _prepare(
    experiment: Experiment, processor: Processor | None, notify: Notify, processes: Processes
) -> PreparedData:
    """Reads the data, and says what was read and what was left out."""
    data = processes.first_on_each_machine(lambda: prepared_data(experiment, processor))
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
    started: float,
) -> None:
    """Trains to the end, then evaluates the saved model on every test split (or else validation)."""
    observers = list(observers)  # used twice
    fit(trained, data, observers, notify, processes)
    directory = RunDirectory(trained.directory)
    reports = []
    tests = sorted(name for name in data.splits if name.startswith("test")) if final == "test" else []
    for name in tests or ["validation"]:
        notify(f"evaluating on {name} ({len(data.splits[name]):,} examples)")
        report = trained.measure(data.splits[name], name, processes)
        reports.append(report)
        processes.on_main(partial(directory.write_evaluation, name, report.as_json()))
    check = processes.on_main(lambda: _checked(trained, data, observers, notify))
    trained.report = replace(
        reports[0],
        seconds=time.perf_counter() - started,
        others=reports[1:],
        self_check=check,
    )


def _checked(
    trained: TrainedModel, data: PreparedData, observers: Iterable[object], notify: Notify
) -> SelfCheck | None:
    """Checks the saved model, and keeps the result; None if no plugin compares anything."""
    check = trained.checked(data.splits["validation"], observers, notify)
    if not check.comparisons:
        return None
    RunDirectory(trained.directory).write_self_check(check.as_json())
    return check
