"""Cells: one arm trained with one seed, in a run directory whose name says what it is made of."""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from plugformer.configuration import dump
from plugformer.errors import RunError
from plugformer.experiment import Experiment
from plugformer.runs import made_of, read_json, write_json, write_text
from plugformer_ablation.arms import Arm, written
from plugformer_ablation.results import RESULT, CellResult, flat

CELLS = "cells"

FORMAT = 1
"""Of what a cell keeps beside its run; a new one makes results of older versions unfinished."""

Ingredients = dict[str, Any]
"""`task`, and `versions`, `components`, `data` and `code` that it is trained with."""

_NOTED = "made_of.json"
_LONGEST = 60


@dataclass(frozen=True)
class Cell:
    """What a worker trains, and where.

    Attributes:
        arm: Name of the arm.
        seed: `training.seed`.
        tried: What tuning tries in it, short; empty in the study itself.
        folder: Its run directory.
        ingredients: What it is made of: of the same the same result, which need not be computed twice. Its
            `split` is what the cell is measured on.
        manifests: Local manifests.
        parameters: Of its model.
        flops_per_token: Of its model; see `Arm`.
    """

    arm: str
    seed: int
    tried: str
    folder: Path
    ingredients: Ingredients
    manifests: tuple[Path, ...]
    parameters: int
    flops_per_token: float

    def __str__(self) -> str:
        return f"{self.arm}, {self.tried or f'seed {self.seed}'}"

    @property
    def name(self) -> str:
        """The name of its folder, which no other cell has."""
        return self.folder.name

    @property
    def finished(self) -> bool:
        """Whether its result is there."""
        return (self.folder / RESULT).is_file()

    @property
    def task(self) -> Path:
        """The file of its task."""
        return self.folder.with_name(f"{self.folder.name}.yaml")

    @property
    def log(self) -> Path:
        """The file of all that its training says."""
        return self.folder.with_name(f"{self.folder.name}.log")

    def result(self) -> CellResult:
        """Returns the saved result; arm and folder are the cell's, since folders may be moved.

        Raises:
            RunError: A file is damaged.
        """
        found = CellResult.load(self.folder)
        return replace(found, arm=self.arm, seed=self.seed, directory=str(self.folder))

    def discard(self) -> None:
        """Removes a result that cannot be used, so that the cell is not finished any more."""
        try:
            (self.folder / RESULT).unlink(missing_ok=True)
        except OSError as error:
            raise RunError(f"{self.folder} cannot be written: {error.strerror or error}") from error


def make_cells(arm: Arm, seeds: Iterable[int], out: Path, split: str, *, tried: str = "") -> list[Cell]:
    """Returns an arm's cells, and writes the file of each one's task.

    Args:
        arm: The arm, with the task that all of them have in common.
        seeds: One for each cell.
        out: The study's folder.
        split: What they are measured on.
        tried: What tuning tries in them, if that is what they are for.
    """
    common = ingredients(arm.resolved, arm.hashes)
    task, manifests = arm.resolved.task, arm.resolved.registry.local
    slug = re.sub(r"[^\w=.,+-]+", "-", f"{arm.name},{tried}" if tried else arm.name)[:_LONGEST].strip("-")
    cells = []
    for seed in seeds:
        training = {**common["task"]["training"], "seed": seed}
        parts = {**common, "split": split, "task": {**common["task"], "training": training}}
        folder = out / CELLS / f"{slug}-seed-{seed}-{identity(parts)}"
        cell = Cell(arm.name, seed, tried, folder, parts, manifests, arm.parameters, arm.flops_per_token)
        cell.task.parent.mkdir(parents=True, exist_ok=True)
        seeded = {"training": task.training.model_copy(update={"seed": seed}), "registry": None}
        # Also where there is one: it may be a stranger's, and name a manifest.
        write_text(cell.task, dump(task.model_copy(update=seeded)))
        cells.append(cell)
    return cells


def ingredients(resolved: Experiment, hashes: Mapping[str, str]) -> Ingredients:
    """Returns the ingredients of a task's training.

    Args:
        resolved: The task, validated.
        hashes: A hash of each split's content.
    """
    return {"format": FORMAT, "task": written(resolved.task), **made_of(resolved, dict(hashes))}


def identity(parts: Ingredients) -> str:
    """Returns a short hash of ingredients."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def changes(before: Ingredients, now: Ingredients) -> list[str]:
    """Returns the differences between ingredients, a line each."""
    old, new = flat(before), flat(now)
    return [
        f"{path}: {_short(old.get(path))} -> {_short(new.get(path))}"
        for path in dict.fromkeys([*old, *new])
        if old.get(path) != new.get(path)
    ]


def report_invalidated_cells(cells: Sequence[Cell], out: Path, notify: Callable[[str], None]) -> None:
    """Reports cells whose earlier results no longer apply, with the reason, and records today's.

    Args:
        cells: Those that are about to be run, or looked up.
        out: The study's folder.
        notify: Receives a message for each reason.
    """
    path = out / CELLS / _NOTED
    try:
        before: dict[str, Ingredients] = read_json(path, TypeAdapter(dict[str, Ingredients]))
    except RunError:  # not there, or damaged: it only explains
        before = {}
    reasons: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for cell in cells:
        old = before.get(str(cell))
        if old is not None and not cell.finished and (found := changes(old, cell.ingredients)):
            reasons[tuple(found)].append(str(cell))
    for why, names in reasons.items():
        what = f"{len(names)} cells are run again" if len(names) > 1 else f"{names[0]} is run again"
        notify("\n  ".join([f"{what}, because of changes since the study ran here last:", *why]))
    write_json(path, {**before, **{str(cell): cell.ingredients for cell in cells}})


def _short(value: object) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:12]}..."
