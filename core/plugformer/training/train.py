"""One training from beginning to end: settings, data, model, updates, final evaluation, run directory."""

import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import torch

from plugformer.configuration import dump, resolve
from plugformer.configuration.overrides import Changes, leaves
from plugformer.configuration.resolving import short_name
from plugformer.configuration.task import DEFAULT_BATCH_TOKENS
from plugformer.data.preparation import PreparedData, prepare
from plugformer.data.processor import Processor
from plugformer.distributed import Processes
from plugformer.errors import ConfigurationError, RunError
from plugformer.evaluation.baselines import measure_baselines
from plugformer.evaluation.evaluator import unscored
from plugformer.evaluation.references import unreachable
from plugformer.evaluation.report import Report, SelfCheck
from plugformer.experiment import Experiment, by_split
from plugformer.model import build
from plugformer.registry import Registry
from plugformer.runs.directory import RunDirectory, training_lock
from plugformer.runs.loading import Notify, TrainedModel, read_processor
from plugformer.runs.lockfile import (
    DURATION,
    check_overrides,
    environment,
    file_hashes,
    make_lockfile,
    other_runs,
    refuse_changes,
    resolve_run,
    task_hashes,
)
from plugformer.runs.self_check import record_answers
from plugformer.runs.store import load_tensors, refuse_links, replacing, restore, write_json, write_text
from plugformer.training.setup import create_trainer
from plugformer.training.strategy import precision
from plugformer.training.stream import count_updates, epochs_of, usual_batch_tokens
from plugformer.validation import validate
from plugformer.yaml_tree import Key, dotted

Final = Literal["test", "validation", "both"]
_THREAD = threading.RLock()


@contextmanager
def one_thread() -> Iterator[None]:
    """Keeps other threads of this process from training."""
    if not _THREAD.acquire(blocking=False):
        words = "another thread of this process is training, and draws from the same random generators"
        raise RunError(f"{words}: train one after the other, or each in a process of its own")
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
    callbacks: Iterable[object] = (),
    notify: Notify = print,
    final: Final = "test",
    baselines: bool = True,
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
        overrides: Settings on top of the task: `KEY=VALUE`, a nested dictionary, or a list of these.
        out: The run directory; `runs/TASK-DATE-TIME` if None.
        device: Where to train: `cpu`, `cuda`, `cuda:1`, `mps`; by default the best one, or the choice of the
            launcher of several processes.
        registry: What is installed; discovered if None.
        callbacks: Objects with hook implementations, besides those of installed plugins.
        notify: Receives messages for people, a line each.
        final: What the saved model is measured on in the end: the test splits, validation alone, as for
            trainings that settings are chosen by, or both.
        baselines: Whether the task's baselines are measured, too, as studies do not.

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
    processes = Processes.join(device)
    notify = notify if processes.main else lambda _: None
    with processes.raise_everywhere():
        known = (registry or Registry.discover()).with_components(components or {})
        resolved = resolve(task, overrides, known, in_memory=data is not None)
        experiment = validate(resolved, by_split(data))
        training = experiment.task.training
        where = environment(processes.device, processes.count, precision(training, processes.device))
    name = short_name("task" if isinstance(task, Mapping) else str(task))
    path = Path(out or processes.on_main(lambda: f"runs/{name}-{datetime.now().astimezone():%Y%m%d-%H%M%S}"))
    processes.on_main(lambda: RunDirectory.require_possible(path))
    prepared = _prepare(experiment, None, notify, processes)
    experiment = _with_batches(experiment, prepared, processes, notify)
    with processes.raise_everywhere():
        experiment.raise_for(unscored(experiment, prepared.splits["validation"]))
    model = build(experiment.spec, prepared.processor.sizes)
    trained = TrainedModel(path, experiment, model, prepared.processor)
    for notice in unreachable(trained.predictor(), prepared.splits["validation"], experiment.task):
        notify(notice)
    processes.on_main(lambda: _make_directory(path, experiment, prepared, where))
    try:
        with training_lock(path, processes):
            return _finish(
                trained, prepared, callbacks, notify, processes, final, started, baselines=baselines
            )
    except BaseException:
        if processes.main:
            RunDirectory(path).remove_if_begun_only()
        raise


@one_thread()
def resume(
    run: Path | str,
    *,
    data: Any = None,
    components: Mapping[str, Mapping[str, type]] | None = None,
    overrides: Changes = (),
    allow_changes: bool = False,
    device: str | torch.device | None = None,
    registry: Registry | None = None,
    callbacks: Iterable[object] = (),
    notify: Notify = print,
    final: Final = "test",
    baselines: bool = True,
) -> TrainedModel:
    """Resumes a run after its last checkpoint; the end is the same as without the interruption.

    Arguments that are not listed here, the result and further errors are those of `train`.

    Args:
        run: The run directory.
        data: The rows, if the run was trained on rows in memory.
        components: The classes that the run was trained with and that no manifest names.
        overrides: `training.steps`, `training.epochs` or `training.early_stopping`, to train longer than the
            run's task says. Task and lockfile record it.
        allow_changes: Resume although components have changed since the run began; its lockfile then says so.
        device: Any; the run may have been trained on another one.
        registry: As installed now.
        callbacks: They are not saved in a run.
        notify: Receives messages about changes, too.
        final: As for `train`.
        baselines: As for `train`.

    Raises:
        ConfigurationError: An override is of something else, or less than what has been trained already.
        RunError: There is no such run, it is damaged, another process trains it, a component of it is not
            installed, or a component or the data changed since it began.
    """
    started = time.perf_counter()
    processes = Processes.join(device)
    notify = notify if processes.main else lambda _: None
    with processes.raise_everywhere():
        directory = RunDirectory.open(Path(run))
        refuse_links(directory.path)
    with training_lock(directory.path, processes):
        with processes.raise_everywhere():
            known = (registry or Registry.discover()).with_components(components or {})
            settings, known = check_overrides(overrides, DURATION, known)
            experiment = resolve_run(directory, known, settings, rows=by_split(data))
            processor = read_processor(directory, experiment)
        prepared = _prepare(experiment, processor, notify, processes)
        with processes.raise_everywhere():
            now = make_lockfile(experiment, prepared.hashes)
            changed = refuse_changes(directory.read_lockfile(), now, allow=allow_changes)
            changed += _other_duration(directory, experiment, prepared, settings.value)
        if changed:
            notify("\n  ".join(["resuming with changes:", *changed]))
            processes.on_main(lambda: _record(directory, experiment, now, changed))
        model = build(experiment.spec, processor.sizes)
        trained = TrainedModel(directory.path, experiment, model, processor)
        return _finish(trained, prepared, callbacks, notify, processes, final, started, baselines=baselines)


def _with_batches(
    experiment: Experiment, data: PreparedData, processes: Processes, notify: Notify
) -> Experiment:
    """Returns the experiment with what it monitors, with batches for all processes and for the data."""
    training = experiment.task.training
    batches = -(-training.batches_per_update // processes.count) * processes.count  # rounded up
    if batches != training.batches_per_update:
        notify(
            f"training.batches_per_update is {batches} instead of {training.batches_per_update}: "
            f"{processes.count} processes share the batches of an update"
        )
    tokens = training.batch_tokens
    if tokens is None and training.batch_size is None:
        tokens = usual_batch_tokens(data, batches)
        if tokens < DEFAULT_BATCH_TOKENS:
            notify(f"training.batch_tokens is {tokens}, so that an epoch of few data has updates enough")
    decided = {"batches_per_update": batches, "batch_tokens": tokens, "monitor": experiment.task.monitor}
    model = experiment.task.model.model_copy(update={"token_dropout": experiment.spec.token_dropout})
    updated = {"training": training.model_copy(update=decided), "model": model}
    return experiment.with_task(experiment.task.model_copy(update=updated))


def _other_duration(
    directory: RunDirectory, experiment: Experiment, data: PreparedData, settings: Mapping[Key, Any]
) -> list[str]:
    """Returns what the lockfile records about another duration; ConfigurationError if it is too short."""
    if not settings:
        return []
    training, made = experiment.task.training, directory.progress().step
    steps, _ = count_updates(training, epochs_of(training, data))
    if steps < made:
        raise ConfigurationError(f"the run has made {made} updates already, {steps} are fewer; give more")
    words = ", ".join(f"{dotted(path)}={json.dumps(value)}" for path, value in leaves(settings))
    return [f"{words} after update {made}"]


def _record(directory: RunDirectory, experiment: Experiment, now: dict[str, Any], changed: list[str]) -> None:
    """Records the changes of a resumed run."""
    before = directory.read_lockfile()
    write_text(directory.task, dump(experiment.task))
    hashes = {"task": task_hashes(directory)}  # a component may have got another option
    lockfile = {**before, **now, **hashes, "changes": [*before.get("changes", []), *changed]}
    write_json(directory.lockfile, lockfile)


def _make_directory(path: Path, experiment: Experiment, data: PreparedData, where: dict[str, Any]) -> None:
    """Writes what a run begins with; a process that is killed leaves a run that can be resumed, or none."""
    with replacing(path) as temporary:
        directory = RunDirectory(temporary)
        directory.checkpoints.mkdir(parents=True)
        # A run never names a manifest: loading it would import what its directory says, not what is there.
        write_text(directory.task, dump(experiment.task.model_copy(update={"registry": None})))
        write_json(directory.learned, data.processor.task_type.state)
        data.processor.save(directory.path)
        counts = {name: len(split) for name, split in data.splits.items()}
        hashes = {"task": task_hashes(directory), "files": file_hashes(directory)}
        lockfile = {**make_lockfile(experiment, data.hashes), **hashes, "examples": counts}
        write_json(directory.lockfile, {**lockfile, **other_runs(experiment.task), "environment": where})


def _prepare(
    experiment: Experiment, processor: Processor | None, notify: Notify, processes: Processes
) -> PreparedData:
    """Reads the data, and says what was read and what was left out."""
    data = processes.first_on_each_machine(lambda: prepare(experiment, processor))
    for notice in (*data.notices, *(f"{name}: {count}" for name, count in data.lengths.items())):
        notify(notice)
    return data


def _finish(
    trained: TrainedModel,
    data: PreparedData,
    callbacks: Iterable[object],
    notify: Notify,
    processes: Processes,
    final: Final,
    started: float,
    *,
    baselines: bool,
) -> TrainedModel:
    """Trains to the end, then evaluates the saved model on every test split (or else validation)."""
    directory = RunDirectory(trained.directory)
    trainer = create_trainer(trained, data, callbacks, notify, processes)
    trainer.fit()
    restore(trained.model, load_tensors(directory.model), directory.model)  # the best, or the average
    trained.model.to(processes.device).eval()  # what is exported from here drops nothing
    reports: dict[str, Report] = {}
    tests = sorted(name for name in data.splits if name.startswith("test")) if final != "validation" else []
    for name in [*tests, *["validation"] * (final == "both" or not tests)]:
        notify(f"evaluating on {name} ({len(data.splits[name]):,} examples)")
        reports[name] = trained.measure(data.splits[name], name, processes)
    if baselines:
        found = processes.on_main(lambda: measure_baselines(trained.experiment, data, reports, notify))
        reports = {name: replace(report, baselines=found[name]) for name, report in reports.items()}
    evaluations = {**directory.evaluations(), **{name: report.as_json() for name, report in reports.items()}}
    processes.on_main(lambda: write_json(directory.path / "evaluation.json", evaluations))
    trainer.hooks.call("run_evaluated", run=trainer.run)

    def check_itself() -> SelfCheck:
        check = trained.check_itself(data.splits["validation"])
        record = {**check.as_json(), "answers": record_answers(trained)}
        write_json(directory.path / "self_check.json", record)
        return check

    check = processes.on_main(check_itself)
    seconds = time.perf_counter() - started
    first, *others = reports.values()
    trained.report = replace(first, seconds=seconds, others=others, self_check=check)
    return trained
