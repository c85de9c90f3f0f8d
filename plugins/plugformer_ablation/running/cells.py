"""Cells: one arm trained with one seed, in a run directory whose name has a hash of its ingredients."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from plugformer.configuration import Component
from plugformer.experiment import Experiment
from plugformer.interfaces import Metric
from plugformer.runs import RunDirectory, provenance
from plugformer_ablation.design.arms import EMBEDDING, Arm, written
from plugformer_ablation.design.blocks import TUNING_SEED, Keep
from plugformer_ablation.judging.results import RESULT, CellResult

CELLS = "cells"

FORMAT = 2
"""Version of the files of a cell; a new one invalidates the results of older versions."""

Ingredients = dict[str, Any]
"""`task`, and the `versions`, `components`, `data` and `code` that it is trained with."""


@dataclass(frozen=True)
class Cell:
    """One training of an arm in its own run directory.

    `tried` are the settings that tuning tries in it, as text, and `ingredients` everything that the result
    depends on, with the `split` of the final evaluation, and the one that it is `chosen_on`, if its seed
    chooses it for a verdict. `keep` says what stays of it; see `Study`.
    """

    arm: str
    seed: int
    tried: str
    folder: Path
    ingredients: Ingredients
    manifests: tuple[Path, ...]
    keep: Keep = "best"

    def __str__(self) -> str:
        seed = "" if self.tried and self.seed >= TUNING_SEED else f"seed {self.seed}"
        return ", ".join(filter(None, (self.arm, self.tried, seed)))

    @property
    def name(self) -> str:
        """The name of its folder, which no other cell has."""
        return self.folder.name

    @property
    def finished(self) -> bool:
        """Whether it has a result."""
        return (self.folder / RESULT).is_file()

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
        if result.diverged:
            scores = {}  # it has those of the untrained model
        result.check(metrics, {self.folder / RESULT: result.metrics, self.folder / "evaluation.json": scores})
        return replace(result, arm=self.arm, seed=self.seed, directory=str(self.folder))


def make_cells(
    arm: Arm,
    seeds: Sequence[int],
    out: Path,
    chosen: Mapping[str, Arm],
    *,
    tried: str = "",
    by_seed: bool = False,
) -> list[Cell]:
    """Returns an arm's cells in a study's folder, one for each seed.

    Args:
        arm: The arm.
        seeds: The seeds.
        out: The study's folder.
        chosen: By name, the arms of earlier tasks, from whose cells of the same seed others start.
        tried: The settings that tuning tries, as text; such cells are measured on validation.
        by_seed: Whether their seed chooses one of them for the verdict, so that they are measured on its
            split, too.
    """
    if arm.choices:
        own = [(arm.choices[seed], seed) for seed in seeds]
        made = (make_cells(each, [seed], out, chosen, tried=each.tried, by_seed=True) for each, seed in own)
        return [cell for cells in made for cell in cells]
    common = ingredients(arm.resolved, arm.hashes)
    slug = re.sub(r"[^\w=.,+-]+", "-", f"{arm.name},{tried}" if tried else arm.name)[:60].strip("-")
    (out / CELLS).mkdir(parents=True, exist_ok=True)
    starts = make_cells(chosen[arm.start], seeds, out, chosen) if arm.start else []
    cells: list[Cell] = []
    for number, seed in enumerate(seeds):
        task = arm.resolved.task
        if arm.start:
            run = {"run": str(starts[number].folder.absolute()), "parts": [*arm.parts]}
            start = Component.model_validate({"name": "initialize_from", **run})
            begun = task.training.model_copy(update={"callbacks": [*task.training.callbacks, start]})
            task = task.model_copy(update={"training": begun})
            if EMBEDDING in arm.parts:
                tokenizer = task.tokenizer.model_copy(update={"run": run["run"]})
                task = task.model_copy(update={"tokenizer": tokenizer})
            common = ingredients(arm.resolved.with_task(task), arm.hashes)
        training = {**common["task"]["training"], "seed": seed}
        split = "validation" if tried and not by_seed else arm.split
        chosen_on = {"chosen_on": "validation"} if by_seed else {}
        parts = {**common, "split": split, **chosen_on, "task": {**common["task"], "training": training}}
        folder = out / CELLS / f"{slug}-seed-{seed}-{identity(parts, out)}"
        cells.append(Cell(arm.name, seed, tried, folder, parts, arm.resolved.registry.local, arm.keep))
    return cells


def ingredients(resolved: Experiment, hashes: Mapping[str, str]) -> Ingredients:
    """Returns the ingredients of a task's training; `hashes` are those of the splits."""
    return {"format": FORMAT, "task": written(resolved.task), **provenance(resolved, dict(hashes))}


def identity(parts: Ingredients, out: Path) -> str:
    """Returns a short hash of ingredients, which stays the same if the study's folder is moved.

    Cells of the study, from which others start, count by their names and not by their weights, which may be
    removed when the study has ended.
    """
    others = parts.get("other_runs", {})
    cells = (out / CELLS).absolute()
    models = {run: hashed for run, hashed in others.get("models", {}).items() if Path(run).parent != cells}
    others = {key: value for key, value in {**others, "models": models}.items() if value}
    kept = {**parts, "other_runs": others} if others else {**parts}
    if not others:
        kept.pop("other_runs", None)
    text = json.dumps(kept, sort_keys=True).replace(str(out.absolute()), "")
    return hashlib.sha256(text.encode()).hexdigest()[:12]
