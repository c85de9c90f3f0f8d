"""The rungs of published studies: what all arms scored at one task and scale, read from `report.json`."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from plugformer_ablation.design.arms import SCALE, TASK
from plugformer_ablation.judging.records import REPORT_RECORD, ReportRecord

Goodness = Float[ndarray, "arms seeds"]
"""What each training is judged by, larger is better; NaN where there is none."""

Cell = Mapping[str, Any]


@dataclass(frozen=True)
class Rung:
    """All arms of a study at one task and scale.

    `arms` are the cells by seed, under the names of arms without task and scale; `sign` is -1 if the `metric`
    that decides is better where it is lower; `operations` are the mean of a forward pass over all tokens of a
    training, NaN if tokens are not known.
    """

    study: str
    task: str
    scale: str
    arms: Mapping[str, Mapping[int, Cell]]
    seeds: Sequence[int]
    metric: str
    sign: int
    operations: float

    @property
    def name(self) -> str:
        """Names the task and the scale, as far as a study has several; else the study."""
        return " ".join(filter(None, (self.task, self.scale))) or self.study

    @property
    def seconds(self) -> float:
        """The mean wall time of a training."""
        return float(np.mean([cell["seconds"] for cells in self.arms.values() for cell in cells.values()]))

    def goodness(self, of: Callable[[Cell], float | None], arms: Sequence[str] = ()) -> Goodness:
        """Returns what a function reads of each cell, for all arms or those that are named."""
        known = [self.arms[name] for name in arms or self.arms]
        read = [[of(cells[seed]) if seed in cells else nan for seed in self.seeds] for cells in known]
        return np.array(read, dtype=float)

    def scores(self, arms: Sequence[str] = ()) -> Goodness:
        """Returns the metric that decides."""
        return self.sign * self.goodness(lambda cell: cell["metrics"][self.metric], arms)

    def losses(self, arms: Sequence[str] = ()) -> Goodness:
        """Returns the validation loss of the saved models, negative."""
        return -self.goodness(lambda cell: cell["loss"], arms)

    def losses_after(self, share: float) -> Goodness:
        """Returns the validation loss, negative, at the last evaluation within a share of each training."""
        return -self.goodness(lambda cell: _loss_after(cell["curve"], share))


def _loss_after(curve: Sequence[Mapping[str, Any]], share: float) -> float | None:
    within = [point["loss"] for point in curve if point["step"] <= share * curve[-1]["step"]]
    return within[-1] if within else nan


def published(docs: Path) -> list[Rung]:
    """Returns the rungs of all studies whose reports lie under a folder, in the order of each study."""
    return [rung for file in sorted(docs.rglob("report.json")) for rung in rungs(file)]


def rungs(file: Path) -> Iterator[Rung]:
    """Yields a rung for each task and scale of a report."""
    record = REPORT_RECORD.validate_python(json.loads(file.read_text(encoding="utf-8")))
    cells: dict[str, dict[int, Cell]] = {arm["arm"]: {} for arm in record["arms"]}
    for cell in record["cells"]:
        if cell["failure"] is None:
            cells[cell["arm"]][cell["seed"]] = cell
    tasks, scales = (dict.fromkeys(_of(arm, factor) for arm in record["arms"]) for factor in (TASK, SCALE))
    for task, scale in product(tasks, scales):
        arms = [arm for arm in record["arms"] if (_of(arm, TASK), _of(arm, SCALE)) == (task, scale)]
        known = [arm for arm in arms if cells[arm["arm"]]]
        sign = _sign(record, {arm["arm"] for arm in arms})
        if len(known) > 1 and sign:
            own = {_label(arm): cells[arm["arm"]] for arm in known}
            costs = [
                arm["cost"]["flops"] * (cell["tokens"] or nan)
                for arm in known
                for cell in cells[arm["arm"]].values()
            ]
            metric, seeds = known[0]["metric"], record["study"]["seeds"]
            yield Rung(file.parent.name, task, scale, own, seeds, metric, sign, float(np.mean(costs)))


def _of(arm: Mapping[str, Any], factor: str) -> str:
    return str(arm["values"].get(factor, ""))


def _label(arm: Mapping[str, Any]) -> str:
    return ", ".join(value for factor, value in arm["values"].items() if factor not in (TASK, SCALE))


def _sign(record: ReportRecord, arms: set[str]) -> int:
    """Returns the direction of the metric that arms are compared by; 0 if none is compared."""
    directions = [each["higher_is_better"] for each in record["comparisons"] if each["arm"] in arms]
    return (1 if directions[0] else -1) if directions else 0
