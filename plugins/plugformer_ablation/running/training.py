"""Training one cell to its end, and saving its result; usually in a separate process."""

import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from math import log
from pathlib import Path
from typing import Any

import torch

from plugformer import resume, train
from plugformer.configuration import resolve
from plugformer.data import prepare
from plugformer.errors import InterruptedRunError, NotFiniteError, PlugformerError, RunError, described
from plugformer.evaluation import Report
from plugformer.experiment import Experiment
from plugformer.hooks import Run, Update, hookimpl, must_not_fail
from plugformer.interfaces import Level
from plugformer.model import build
from plugformer.registry import Kind, Registry
from plugformer.runs import RunDirectory, TrainedModel, is_being_trained, provenance
from plugformer.validation import validate
from plugformer_ablation.judging.results import CellResult
from plugformer_ablation.running.accepting import save_code
from plugformer_ablation.running.cells import Cell, identity
from plugformer_ablation.running.claims import take

Progress = Callable[[int, int], None]
"""Receives the number of updates made, and the number of all updates."""

_LEARNED = 0.9
"""A loss of next tokens below this share of that of a uniform guess is not one of an untrained model."""

PATIENCE = 300.0
"""Seconds within which a worker of a killed study stops."""


@dataclass(frozen=True)
class Message:
    """The progress of a cell, or, without a step, its end: a failure, or a stop after saving a checkpoint."""

    step: int | None = None
    steps: int = 0
    failure: str | None = None
    stopped: bool = False
    lost: bool = False
    """Whether its process or its machine failed, and not the training."""
    elsewhere: bool = False
    """Whether another process trains it or has done so, and this one has done nothing."""

    @property
    def ended(self) -> bool:
        """Whether the cell has finished or failed."""
        return self.step is None and not self.stopped


def work_on(cell: Cell, threads: int, progress: Progress, *, final: bool = False) -> Message:
    """Trains a cell in this process and returns how it ended; all output goes to the cell's log.

    A cell that another process has claimed is left to it. A `final` failure is recorded in the claim, for all
    workers; one is that the processes of a cell are lost again and again.

    Raises:
        CodeChangedError: The code changed, and with it all cells; only if failures are final.
    """
    claim = take(cell.folder)
    if claim is None:
        return Message(elsewhere=True)

    def advance(step: int, steps: int) -> None:
        if claim.superseded:
            raise InterruptedRunError(f"{cell}: another process has taken it over")
        claim.advance(step, steps)
        progress(step, steps)

    message = Message(stopped=True)
    try:
        with claim, _output_to(cell.log):
            torch.set_num_threads(threads)
            if final and claim.hopeless:
                message = Message(failure=f"its process was lost twice in a row; {cell.log} has its output")
            else:
                message = _outcome(cell, advance, final=final)
    finally:
        if claim.superseded or not message.ended:
            claim.note(released=True)
        elif final and message.failure is not None:
            claim.note(failure=message.failure)
        else:
            claim.settle()
    return message


def _outcome(cell: Cell, progress: Progress, *, final: bool) -> Message:
    """Trains a cell and returns how it ended."""
    try:
        train_cell(cell, progress, partial(print, flush=True))
    except PlugformerError as error:
        if final and isinstance(error, CodeChangedError):  # it is not the cell's
            raise
        print(error, flush=True)  # noqa: T201 (to the cell's log)
        stopped = isinstance(error, InterruptedRunError)
        return Message(stopped=True) if stopped else Message(failure=str(error))
    except (Exception, SystemExit) as error:  # raised by a component
        traceback.print_exc()
        return Message(failure=f"{described(error)}; {cell.log} has the traceback")
    return Message()


@contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Inside, standard output and errors go to a file, those of libraries in C as well."""
    usual = [os.dup(stream) for stream in (1, 2)]
    with log.open("ab") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for stream, before in enumerate(usual, start=1):
                os.dup2(before, stream)
                os.close(before)


def train_cell(
    cell: Cell,
    progress: Progress,
    notify: Callable[[str], None],
    registry: Registry | None = None,
    data: Mapping[str, Any] | None = None,
) -> None:
    """Trains a cell from its last checkpoint or from the beginning, evaluates it and saves the result."""
    _reset_peak_memory()
    registry = (registry or Registry.discover()).with_local(*cell.manifests)
    split, chosen_on = cell.ingredients["split"], cell.ingredients.get("chosen_on")
    options: dict[str, Any] = {
        "data": data,
        "registry": registry,
        "callbacks": [_ProgressCallback(progress)],
        "notify": notify,
        "baselines": False,
        "final": "validation" if split == "validation" else "both" if chosen_on else "test",
    }
    task = cell.ingredients["task"]
    try:
        if cell.folder.exists():
            deadline = time.monotonic() + PATIENCE
            while is_being_trained(cell.folder) and time.monotonic() < deadline:
                notify(f"waiting for a worker of a killed study, which still trains {cell.folder}")
                time.sleep(1)
            trained = resume(cell.folder, **options)
        else:
            trained = train(task, out=cell.folder, **options)
        experiment, result = trained.experiment, _result(cell, trained.report)
        tokens = experiment.task_type.level is Level.NEXT_TOKEN
        if result.loss > (_LEARNED * log(trained.model.sizes.outputs) if tokens else 0.0):
            reason = "the loss is above that of the untrained model"
            result = _diverged(cell, experiment, reason, result)
    except NotFiniteError as error:
        notify(str(error))
        experiment = validate(resolve(task, registry=registry), data)
        result = _diverged(cell, experiment, str(error))
        cell.folder.mkdir(exist_ok=True)  # a run without a checkpoint leaves no folder
    now = {**cell.ingredients, **provenance(experiment, cell.ingredients["data"])}
    out = cell.folder.parents[1]
    if identity(now, out) != identity(cell.ingredients, out):  # the hash in the folder's name would be wrong
        raise CodeChangedError("the code changed while this cell was trained: run the study again")
    save_code(cell)
    result.save(cell.folder)
    if cell.keep != "all":
        for checkpoint in cell.folder.glob("checkpoints/*"):
            shutil.rmtree(checkpoint, ignore_errors=True)
    if cell.keep == "results":
        RunDirectory(cell.folder).model.unlink(missing_ok=True)


class CodeChangedError(RunError):
    """Nobody knows with which code a cell was trained."""


class _ProgressCallback:
    """Reports the progress of a training, at most five times a second."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._last = 0.0

    @hookimpl
    @must_not_fail
    def step_ended(self, run: Run, update: Update) -> None:
        if time.monotonic() - self._last > 0.2:
            self._last = time.monotonic()
            self._progress(update.step, run.steps)


def _result(cell: Cell, report: Report) -> CellResult:
    directory = RunDirectory(cell.folder)
    reports = {part.split: part for part in (report, *report.others)}
    final = reports[cell.ingredients["split"]]
    metrics = _values(final)
    lines, progress = directory.logged(), directory.progress()
    saved = [line["loss"] for line in lines if line.get("event") == "average" or line.get("best")]
    return CellResult(
        arm=cell.arm,
        seed=cell.seed,
        loss=float(saved[-1]),  # of the parameters that the run has saved
        metrics=metrics,
        validation=_values(reports.get(cell.ingredients.get("chosen_on", ""))),
        statistics=final.statistics,
        curve=[
            {"step": line["step"], "loss": line["loss"], "metrics": {name: line[name] for name in metrics}}
            for line in lines
            if line.get("event") == "validation"
        ],
        peak_memory_mb=peak_memory(),
        seconds=progress.seconds,
        tokens=progress.tokens,
        threads=torch.get_num_threads(),
        directory=str(cell.folder),
        inconsistent=list(map(str, report.self_check.failed)) if report.self_check else [],
    )


def _values(report: Report | None) -> dict[str, float]:
    """Returns the scores of a report; nothing without one."""
    return {name: score["value"] for name, score in report.metrics.items()} if report else {}


def _diverged(
    cell: Cell, experiment: Experiment, reason: str, trained: CellResult | None = None
) -> CellResult:
    """Returns the result of a training that diverged: it has the scores of the untrained model.

    A loss that is capped at its initial value is what Wortsman et al. (2023) count, section 2.2,
    https://arxiv.org/abs/2309.14322. What was `trained` to its end is returned as it is if its loss is not
    larger than that, or its first metric is better: a classifier becomes sure of its mistakes, too.
    """
    data = prepare(experiment)
    model = build(experiment.spec, data.processor.sizes)
    untrained = TrainedModel(cell.folder, experiment, model, data.processor)
    loss = untrained.evaluator().likelihoods(data.splits["validation"]).loss
    if trained and trained.loss <= loss:
        return trained
    split, chosen_on = cell.ingredients["split"], cell.ingredients.get("chosen_on")
    report = untrained.measure(data.splits[split], split)
    if trained and _is_better(experiment, trained.metrics, _values(report)):
        return trained
    result = CellResult(
        arm=cell.arm,
        seed=cell.seed,
        loss=loss,
        metrics=_values(report),
        validation=_values(chosen_on and untrained.measure(data.splits[chosen_on], chosen_on)),
        statistics=report.statistics,
        threads=torch.get_num_threads(),
        directory=str(cell.folder),
        diverged=reason.partition("\n")[0],
    )
    kept = ("curve", "peak_memory_mb", "seconds", "tokens", "inconsistent") if trained else ()
    return replace(result, **{name: getattr(trained, name) for name in kept})


def _is_better(experiment: Experiment, scores: Mapping[str, float], others: Mapping[str, float]) -> bool:
    """Returns whether the first metric of a task is better."""
    for block in experiment.task.evaluation.metrics[:1]:
        metric, name = experiment.create(Kind.METRIC, block), block.score_name
        return bool((scores[name] > others[name]) == metric.higher_is_better and scores[name] != others[name])
    return False


def _reset_peak_memory() -> None:
    """Forgets the memory of trainings that this process has made before, where the system can."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    with suppress(OSError):  # Linux alone: https://docs.kernel.org/filesystems/proc.html
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> float:
    """Returns the peak memory of this process, or of its GPU, in MB; 0 on Windows."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 1e6
    if sys.platform == "win32":
        return 0.0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
