"""Cells: one arm trained with one seed, in a run directory whose name says what it is made of."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from plugformer.configuration import Task, dump
from plugformer.errors import RunError
from plugformer.runs import read_json, write_json, write_text
from plugformer_ablation.cost import Cost
from plugformer_ablation.fairness import Priced
from plugformer_ablation.identity import Ingredients, identity, ingredients
from plugformer_ablation.results import CellResult, damaged, load_arrays, save_arrays

CELLS = "cells"
_RESULT, _STATISTICS = "cell.json", "cell_statistics.npz"
_LONGEST = 60


@dataclass(frozen=True)
class Cell:
    """What a worker trains, and where.

    Attributes:
        arm: Name of the arm.
        seed: `training.seed`.
        tried: What tuning tries in it, short; empty in the study itself.
        folder: Its run directory.
        ingredients: What it is made of.
        manifests: Local manifests.
        cost: Of its model.
        split: What it is measured on.
    """

    arm: str
    seed: int
    tried: str
    folder: Path
    ingredients: Ingredients
    manifests: tuple[Path, ...]
    cost: Cost
    split: str

    def __str__(self) -> str:
        return f"{self.arm}, {self.tried or f'seed {self.seed}'}"

    @property
    def name(self) -> str:
        """The name of its folder, which no other cell has."""
        return self.folder.name

    @property
    def finished(self) -> bool:
        """Whether its result is there."""
        return (self.folder / _RESULT).is_file()

    @property
    def task(self) -> Path:
        """The file of its task."""
        return self.folder.with_name(f"{self.folder.name}.yaml")

    @property
    def log(self) -> Path:
        """The file of all that its training says."""
        return self.folder.with_name(f"{self.folder.name}.log")

    @property
    def final(self) -> Literal["test", "validation"]:
        """What its training ends with: who is measured on validation has no use for the test splits."""
        return "validation" if self.split == "validation" else "test"

    def failed(self, message: str) -> CellResult:
        """Returns a result that says why there is none."""
        return CellResult(self.arm, self.seed, directory=str(self.folder), failure=message)

    def save(self, result: CellResult) -> None:
        """Keeps its result; from then on it is finished."""
        save_arrays(self.folder / _STATISTICS, result.statistics)
        write_json(self.folder / _RESULT, result.as_json())

    def result(self) -> CellResult:
        """Returns what `save` kept; arm and folder are the cell's, since folders may be moved.

        Raises:
            RunError: A file is damaged.
        """
        path = self.folder / _RESULT
        record, statistics = read_json(path), load_arrays(self.folder / _STATISTICS)
        try:
            found = CellResult.from_json(record, statistics)
        except (ValueError, OverflowError) as error:
            raise damaged(path, error) from error
        return replace(found, arm=self.arm, seed=self.seed, directory=str(self.folder))

    def discard(self) -> None:
        """Removes a result that cannot be used, so that the cell is not finished any more."""
        try:
            (self.folder / _RESULT).unlink(missing_ok=True)
        except OSError as error:
            raise RunError(f"{self.folder} cannot be written: {error.strerror or error}") from error


def make_cells(arm: Priced, seeds: Sequence[int], out: Path, split: str, *, tried: str = "") -> list[Cell]:
    """Returns an arm's cells, and writes the file of each one's task.

    Args:
        arm: The arm, with the task that all of them have in common.
        seeds: One for each cell.
        out: The study's folder.
        split: What they are measured on.
        tried: What tuning tries in them, if that is what they are for.
    """
    common = ingredients(arm.resolved, arm.facts.hashes)
    manifests = arm.resolved.registry.local
    return [_cell(arm, seed, common, manifests, out, split, tried) for seed in seeds]


def _cell(
    arm: Priced,
    seed: int,
    common: Ingredients,
    manifests: tuple[Path, ...],
    out: Path,
    split: str,
    tried: str,
) -> Cell:
    task = _seeded(arm.resolved.task, seed)
    training = {**common["task"]["training"], "seed": seed}
    parts = {**common, "split": split, "task": {**common["task"], "training": training}}
    name = arm.variant.arm.name
    slug = re.sub(r"[^\w=.,+-]+", "-", f"{name},{tried}" if tried else name)[:_LONGEST].strip("-")
    folder = out / CELLS / f"{slug}-seed-{seed}-{identity(parts)}"
    cell = Cell(name, seed, tried, folder, parts, manifests, arm.cost, split)
    if not cell.task.exists():
        cell.task.parent.mkdir(parents=True, exist_ok=True)
        write_text(cell.task, dump(task.model_copy(update={"registry": None})))
    return cell


def _seeded(task: Task, seed: int) -> Task:
    return task.model_copy(update={"training": task.training.model_copy(update={"seed": seed})})
