"""Cells: one arm trained with one seed, in a run directory whose name has a hash of its ingredients."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from plugformer.configuration import dump
from plugformer.experiment import Experiment
from plugformer.interfaces import Metric
from plugformer.runs import RunDirectory, provenance
from plugformer_ablation.arms import Arm, written
from plugformer_ablation.results import RESULT, CellResult, write

CELLS = "cells"

FORMAT = 2
"""Version of the files of a cell; a new one invalidates the results of older versions."""

Ingredients = dict[str, Any]
"""`task`, and the `versions`, `components`, `data` and `code` that it is trained with."""


@dataclass(frozen=True)
class Cell:
    """One training of an arm in its own run directory.

    `tried` are the settings that tuning tries in it, as text, and `ingredients` everything that the result
    depends on, with the `split` of the final evaluation.
    """

    arm: str
    seed: int
    tried: str
    folder: Path
    ingredients: Ingredients
    manifests: tuple[Path, ...]

    def __str__(self) -> str:
        return f"{self.arm}, {self.tried or f'seed {self.seed}'}"

    @property
    def name(self) -> str:
        """The name of its folder, which no other cell has."""
        return self.folder.name

    @property
    def finished(self) -> bool:
        """Whether it has a result."""
        return (self.folder / RESULT).is_file()

    @property
    def task(self) -> Path:
        """The file of its task."""
        return self.folder.with_name(f"{self.name}.yaml")

    @property
    def log(self) -> Path:
        """The file of all output of its training."""
        return self.folder.with_name(f"{self.name}.log")

    def result(self, metrics: Mapping[str, Metric]) -> CellResult:
        """Returns the saved result; arm and folder are the cell's, because folders may be moved.

        Raises:
            RunError: A file is damaged, or states another score than the metric gives.
        """
        result, directory = CellResult.load(self.folder), RunDirectory(self.folder)
        evaluation = directory.evaluations().get(self.ingredients.get("split", ""), {"metrics": {}})
        scores = {name: score["value"] for name, score in evaluation["metrics"].items()}
        result.check(metrics, {self.folder / RESULT: result.metrics, self.folder / "evaluation.json": scores})
        return replace(result, arm=self.arm, seed=self.seed, directory=str(self.folder))


def make_cells(arm: Arm, seeds: Iterable[int], out: Path, split: str, *, tried: str = "") -> list[Cell]:
    """Returns an arm's cells in a study's folder, one for each seed; writes the file of each one's task."""
    common = ingredients(arm.resolved, arm.hashes)
    task, manifests = arm.resolved.task, arm.resolved.registry.local
    slug = re.sub(r"[^\w=.,+-]+", "-", f"{arm.name},{tried}" if tried else arm.name)[:60].strip("-")
    (out / CELLS).mkdir(parents=True, exist_ok=True)
    cells = []
    for seed in seeds:
        training = {**common["task"]["training"], "seed": seed}
        parts = {**common, "split": split, "task": {**common["task"], "training": training}}
        folder = out / CELLS / f"{slug}-seed-{seed}-{identity(parts)}"
        cell = Cell(arm.name, seed, tried, folder, parts, manifests)
        seeded = {"training": task.training.model_copy(update={"seed": seed}), "registry": None}
        # Also where a file exists: it may come from somebody else, and name a manifest.
        write(cell.task, dump(task.model_copy(update=seeded)))
        cells.append(cell)
    return cells


def ingredients(resolved: Experiment, hashes: Mapping[str, str]) -> Ingredients:
    """Returns the ingredients of a task's training; `hashes` are those of the splits."""
    return {"format": FORMAT, "task": written(resolved.task), **provenance(resolved, dict(hashes))}


def identity(parts: Ingredients) -> str:
    """Returns a short hash of ingredients."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]
