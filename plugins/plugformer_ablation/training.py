"""Training one cell to its end, and saving its result; usually in a separate process."""

import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from plugformer import resume, train
from plugformer.configuration import resolve
from plugformer.data import prepare
from plugformer.errors import InterruptedRunError, NotFiniteError, PlugformerError, RunError, described
from plugformer.evaluation import Report
from plugformer.experiment import Experiment
from plugformer.hooks import Run, Update, hookimpl
from plugformer.model import build
from plugformer.registry import Registry
from plugformer.runs import RunDirectory, TrainedModel, is_being_trained
from plugformer.validation import validate
from plugformer_ablation.cells import Cell, identity, ingredients
from plugformer_ablation.results import CellResult

Progress = Callable[[int, int], None]
"""Receives the number of updates made, and the number of all updates."""

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

    @property
    def ended(self) -> bool:
        """Whether the cell has finished or failed."""
        return self.step is None and not self.stopped


def work_on(cell: Cell, threads: int, progress: Progress) -> Message:
    """Trains a cell in this process and returns how it ended; all output goes to the cell's log."""
    cell.log.parent.mkdir(parents=True, exist_ok=True)
    log = os.open(cell.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):  # standard output and errors, of libraries in C as well
        os.dup2(log, stream)
    torch.set_num_threads(threads)
    try:
        train_cell(cell, progress, partial(print, flush=True))
    except PlugformerError as error:
        print(error, flush=True)  # noqa: T201 (to the cell's log)
        stopped = isinstance(error, InterruptedRunError)
        return Message(stopped=True) if stopped else Message(failure=str(error))
    except (Exception, SystemExit) as error:  # raised by a component
        traceback.print_exc()
        return Message(failure=f"{described(error)}; {cell.log} has the traceback")
    return Message()


def train_cell(
    cell: Cell,
    progress: Progress,
    notify: Callable[[str], None],
    registry: Registry | None = None,
    data: Mapping[str, Any] | None = None,
) -> None:
    """Trains a cell from its last checkpoint or from the beginning, evaluates it and saves the result."""
    registry = (registry or Registry.discover()).with_local(*cell.manifests)
    split = cell.ingredients["split"]
    options: dict[str, Any] = {
        "data": data,
        "registry": registry,
        "callbacks": [_ProgressCallback(progress)],
        "notify": notify,
        "final": "validation" if split == "validation" else "test",
    }
    resolved = validate(resolve(str(cell.task), registry=registry), data)
    try:
        if cell.folder.exists():
            deadline = time.monotonic() + PATIENCE
            while is_being_trained(cell.folder) and time.monotonic() < deadline:
                notify(f"waiting for a worker of a killed study, which still trains {cell.folder}")
                time.sleep(1)
            report = resume(cell.folder, **options).report
        else:
            report = train(str(cell.task), out=cell.folder, **options).report
        result = _result(cell, report)
    except NotFiniteError as error:
        notify(str(error))
        result = _diverged(cell, resolved, str(error))
        cell.folder.mkdir(exist_ok=True)  # a run without a checkpoint leaves no folder
    now = {**ingredients(resolved, cell.ingredients["data"]), "split": split}
    out = cell.folder.parents[1]
    if identity(now, out) != identity(cell.ingredients, out):  # the hash in the folder's name would be wrong
        raise RunError("the code changed while this cell was trained: run the study again")
    result.save(cell.folder)


class _ProgressCallback:
    """Reports the progress of a training, at most five times a second."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._last = 0.0

    @hookimpl
    def step_ended(self, run: Run, update: Update) -> None:
        if time.monotonic() - self._last > 0.2:
            self._last = time.monotonic()
            self._progress(update.step, run.steps)


def _result(cell: Cell, report: Report) -> CellResult:
    directory = RunDirectory(cell.folder)
    final = next(part for part in (report, *report.others) if part.split == cell.ingredients["split"])
    metrics = {name: score["value"] for name, score in final.metrics.items()}
    lines = directory.logged()
    saved = [line["loss"] for line in lines if line.get("event") == "average" or line.get("best")]
    return CellResult(
        arm=cell.arm,
        seed=cell.seed,
        loss=float(saved[-1]),  # of the parameters that the run has saved
        metrics=metrics,
        statistics=final.statistics,
        curve=[
            {"step": line["step"], "loss": line["loss"], "metrics": {name: line[name] for name in metrics}}
            for line in lines
            if line.get("event") == "validation"
        ],
        peak_memory_mb=peak_memory(),
        seconds=directory.seconds(),
        tokens=directory.tokens(),
        directory=str(cell.folder),
    )


def _diverged(cell: Cell, experiment: Experiment, reason: str) -> CellResult:
    """Returns the result of a training that diverged: it has the scores of the untrained model.

    A loss that is capped at its initial value is what Wortsman et al. (2023) count, section 2.2,
    https://arxiv.org/abs/2309.14322.
    """
    data = prepare(experiment)
    model = build(experiment.spec, data.processor.sizes)
    untrained = TrainedModel(cell.folder, experiment, model, data.processor)
    split = cell.ingredients["split"]
    report = untrained.measure(data.splits[split], split)
    return CellResult(
        arm=cell.arm,
        seed=cell.seed,
        loss=untrained.evaluator().likelihoods(data.splits["validation"]).loss,
        metrics={name: score["value"] for name, score in report.metrics.items()},
        statistics=report.statistics,
        directory=str(cell.folder),
        diverged=reason.partition("\n")[0],
    )


def peak_memory() -> float:
    """Returns the peak memory of this process, or of its GPU, in MB; 0 on Windows."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 1e6
    if sys.platform == "win32":
        return 0.0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
