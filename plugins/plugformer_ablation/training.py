"""Training one cell to its end, wherever it stands, and keeping its result."""

import statistics
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from plugformer import resume, train
from plugformer.configuration import resolve
from plugformer.errors import RunError
from plugformer.evaluation import Report
from plugformer.hooks import Run, Update, hookimpl
from plugformer.registry import Registry
from plugformer.runs import RunDirectory, is_trained
from plugformer.validation import validate
from plugformer_ablation.cell import Cell
from plugformer_ablation.identity import changes, ingredients
from plugformer_ablation.results import CellResult

Tell = Callable[[int, int], None]
"""Receives the updates made, and those there are."""

PATIENCE = 300.0
"""Seconds in which a worker of a killed study notices that and stops."""


def train_cell(cell: Cell, tell: Tell, notify: Callable[[str], None]) -> None:
    """Trains a cell from its last checkpoint, or from the beginning, measures it and keeps the result.

    Raises:
        PlugformerError: The training fails.
        InterruptedRunError: Somebody asked to stop; everything so far is saved.
    """
    registry = Registry.discover()
    for manifest in cell.manifests:
        registry = registry.with_local(manifest)
    report = _report(cell, registry, [_Teller(tell)], notify)
    _refuse_changes(cell, registry)
    cell.save(_result(cell, report))


class _Teller:
    """Tells how far the training is, not more often than somebody could read."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._last = 0.0

    @hookimpl
    def step_ended(self, run: Run, update: Update) -> None:
        if time.monotonic() - self._last > 0.2:
            self._last = time.monotonic()
            self._tell(update.step, run.steps)


def _report(
    cell: Cell, registry: Registry, observers: Iterable[object], notify: Callable[[str], None]
) -> Report:
    if not cell.folder.exists():
        return train(
            str(cell.task),
            out=cell.folder,
            registry=registry,
            observers=observers,
            notify=notify,
            final=cell.final,
        )
    _wait_for_the_dying(cell.folder, notify)
    return resume(cell.folder, registry=registry, observers=observers, notify=notify, final=cell.final)


def _wait_for_the_dying(run: Path, notify: Callable[[str], None]) -> None:
    """Waits until a worker of a killed study has noticed that; who goes on for longer is somebody else."""
    deadline = time.monotonic() + PATIENCE
    while is_trained(run) and time.monotonic() < deadline:
        notify(f"{run} is still being trained by a worker of a killed study: waiting for its end")
        time.sleep(1)


def _refuse_changes(cell: Cell, registry: Registry) -> None:
    """Makes sure that code did not change while the cell was trained: the result would have a wrong name."""
    resolved = validate(resolve(str(cell.task), registry=registry))
    now = {**ingredients(resolved, cell.ingredients["data"]), "split": cell.split}
    if found := changes(cell.ingredients, now):
        raise RunError(
            "\n  ".join(["the code changed while this cell was trained:", *found, "run the study again"])
        )


def _result(cell: Cell, report: Report) -> CellResult:
    directory = RunDirectory(cell.folder)
    decisive = next(each for each in (report, *report.others) if each.split == cell.split)
    metrics = {name: score["value"] for name, score in decisive.metrics.items()}
    lines = directory.logged()
    evaluations = [line for line in lines if line.get("event") == "validation"]
    speeds = [line["tokens_per_second"] for line in lines if line.get("event") == "training"]
    return CellResult(
        arm=cell.arm,
        seed=cell.seed,
        loss=_final_loss(lines),
        metrics=metrics,
        statistics=decisive.statistics,
        curve=[
            {"step": line["step"], "loss": line["loss"], "metrics": {name: line[name] for name in metrics}}
            for line in evaluations
        ],
        parameters=cell.cost.parameters,
        flops_per_token=cell.cost.flops_per_token,
        peak_memory_mb=peak_memory(),
        tokens_per_second=statistics.median(speeds),
        seconds=directory.seconds(),
        directory=str(cell.folder),
    )


def _final_loss(lines: Iterable[dict[str, Any]]) -> float:
    """Returns the validation loss of the parameters that the run has saved."""
    saved = [line for line in lines if line.get("event") == "average" or line.get("best")]
    return float(saved[-1]["loss"])


def peak_memory() -> float:
    """Returns the largest memory that this process, or its GPU, has had, in MB."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 1e6
    if sys.platform == "win32":
        return 0.0  # nothing there counts it without another library
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
