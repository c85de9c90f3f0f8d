"""Training one cell to its end, wherever it stands, and keeping its result; runs in a process of its own."""

import os
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import torch

from plugformer import resume, train
from plugformer.configuration import resolve
from plugformer.errors import InterruptedRunError, PlugformerError, RunError, described
from plugformer.evaluation import Report
from plugformer.faults import cause_of
from plugformer.hooks import Run, Update, hookimpl
from plugformer.registry import Registry
from plugformer.runs import RunDirectory, is_trained
from plugformer.validation import validate
from plugformer_ablation.cells import Cell, changes, ingredients
from plugformer_ablation.results import CellResult

Tell = Callable[[int, int], None]
"""Receives the updates made, and those there are."""

PATIENCE = 300.0
"""Seconds in which a worker of a killed study notices that and stops."""


@dataclass(frozen=True)
class Message:
    """What is told of a cell: how far it is, or how it ended.

    Attributes:
        step: Updates made; None at the end.
        steps: Updates in all.
        failure: Why it failed, or None.
        stopped: Whether it was interrupted, and has saved what it had.
    """

    step: int | None = None
    steps: int = 0
    failure: str | None = None
    stopped: bool = False

    @property
    def ended(self) -> bool:
        """Whether the cell is done with: finished or failed."""
        return self.step is None and not self.stopped


def work_on(cell: Cell, threads: int, tell: Tell) -> Message:
    """Trains a cell in this process, and returns how that ended; all it prints goes to the cell's log.

    Args:
        cell: What to train.
        threads: How many it may use.
        tell: Receives the updates made, and those there are.
    """
    cell.log.parent.mkdir(parents=True, exist_ok=True)
    log = os.open(cell.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):  # standard output and errors, of libraries in C as well
        os.dup2(log, stream)
    torch.set_num_threads(threads)
    try:
        train_cell(cell, tell, _say)
    except InterruptedRunError as error:
        _say(str(error))
        return Message(stopped=True)
    except PlugformerError as error:
        _say(str(error))
        return Message(failure=str(error))
    except (Exception, SystemExit) as error:  # of a component, which is a stranger
        traceback.print_exc()
        failure = cause_of(error) or described(error)
        return Message(failure=f"{failure}; {cell.log} has the traceback")
    return Message()


def train_cell(cell: Cell, tell: Tell, notify: Callable[[str], None]) -> None:
    """Trains a cell from its last checkpoint, or from the beginning, measures it and keeps the result.

    Raises:
        PlugformerError: The training fails.
        InterruptedRunError: Somebody asked to stop; everything so far is saved.
    """
    registry = discover(cell.manifests)
    options: dict[str, Any] = {
        "registry": registry,
        "observers": [_Teller(tell)],
        "notify": notify,
        # Who is measured on validation has no use for the test splits.
        "final": "validation" if cell.ingredients["split"] == "validation" else "test",
    }
    if cell.folder.exists():
        _wait_for_the_dying(cell.folder, notify)
        report = resume(cell.folder, **options)
    else:
        report = train(str(cell.task), out=cell.folder, **options)
    _refuse_changes(cell, registry)
    _result(cell, report).save(cell.folder)  # from here on it is finished


def discover(manifests: Iterable[Path]) -> Registry:
    """Returns the registry of what is installed here, and of local manifests."""
    return reduce(Registry.with_local, manifests, Registry.discover())


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 (to the cell's log)


class _Teller:
    """Reports the progress of a training, at most five times a second."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._last = 0.0

    @hookimpl
    def step_ended(self, run: Run, update: Update) -> None:
        if time.monotonic() - self._last > 0.2:
            self._last = time.monotonic()
            self._tell(update.step, run.steps)


def _wait_for_the_dying(run: Path, notify: Callable[[str], None]) -> None:
    """Waits until a worker of a killed study has noticed that; who goes on for longer is somebody else."""
    deadline = time.monotonic() + PATIENCE
    while is_trained(run) and time.monotonic() < deadline:
        notify(f"{run} is still being trained by a worker of a killed study: waiting for its end")
        time.sleep(1)


def _refuse_changes(cell: Cell, registry: Registry) -> None:
    """Makes sure that code did not change while the cell was trained: the result would have a wrong name."""
    resolved = validate(resolve(str(cell.task), registry=registry))
    now = {**ingredients(resolved, cell.ingredients["data"]), "split": cell.ingredients["split"]}
    if found := changes(cell.ingredients, now):
        raise RunError(
            "\n  ".join(["the code changed while this cell was trained:", *found, "run the study again"])
        )


def _result(cell: Cell, report: Report) -> CellResult:
    directory = RunDirectory(cell.folder)
    split = cell.ingredients["split"]
    decisive = next(each for each in (report, *report.others) if each.split == split)
    metrics = {name: score["value"] for name, score in decisive.metrics.items()}
    lines = directory.logged()
    speeds = [line["tokens_per_second"] for line in lines if line.get("event") == "training"]
    saved = [line["loss"] for line in lines if line.get("event") == "average" or line.get("best")]
    return CellResult(
        arm=cell.arm,
        seed=cell.seed,
        loss=float(saved[-1]),  # of the parameters that the run has saved
        metrics=metrics,
        statistics=decisive.statistics,
        curve=[
            {"step": line["step"], "loss": line["loss"], "metrics": {name: line[name] for name in metrics}}
            for line in lines
            if line.get("event") == "validation"
        ],
        parameters=cell.parameters,
        flops_per_token=cell.flops_per_token,
        peak_memory_mb=peak_memory(),
        tokens_per_second=statistics.median(speeds),
        seconds=directory.seconds(),
        directory=str(cell.folder),
    )


def peak_memory() -> float:
    """Returns the largest memory that this process, or its GPU, has had, in MB."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 1e6
    if sys.platform == "win32":
        return 0.0  # nothing there counts it without another library
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
