"""The results of a study: its arms, a result for each cell, and what all of it was made of.

Statistics and reports read this and nothing else. Results are saved as JSON and a file of arrays; nothing is
pickled.
"""

import io
import json
import math
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any
from zipfile import BadZipFile

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from pandas import DataFrame
from pydantic import BeforeValidator, ConfigDict, TypeAdapter

from plugformer.configuration import Component
from plugformer.errors import RunError, described
from plugformer.interfaces import Metric
from plugformer.registry import Kind, Registry
from plugformer.runs import read_json, replacing
from plugformer_ablation.design.arms import RECORDED
from plugformer_ablation.judging.records import REPORT_RECORD, LookRecord

Record = dict[str, Any]
"""The content of a JSON file, or a part of it."""

MEASURED = ("peak_memory_mb", "seconds")
"""Costs of a cell; seconds of different cells are facts and not compared."""

RESULT, _STATISTICS = "cell.json", "cell_statistics.npz"
REPORT, _ARRAYS = "report.json", "cells.npz"

Score = Annotated[float, BeforeValidator(lambda number: math.nan if number is None else number)]
"""A number; if it is not finite, JSON has null."""

Statistics = dict[str, Float[ndarray, "examples statistics"]]
"""By a metric's name, the statistics of each example, in the order of the examples."""


@dataclass(frozen=True)
class CellResult:
    """One arm trained with one seed; cells of the same seed are a pair.

    Attributes:
        loss: Validation loss of the saved model, in nats per target; NaN if the cell failed.
        metrics: Each metric's value on the split of the final comparison.
        validation: The same on validation, if its seed chooses its settings there.
        statistics: The statistics that these aggregate, of the same examples in all cells.
        curve: `step`, `loss` and `metrics` of the evaluations on the validation split during training.
        peak_memory_mb: Largest memory of the training process, or of the GPU if it computed there.
        seconds: Wall time of all updates.
        tokens: Source and target tokens read in all updates; 0 if unknown.
        threads: With how many it was trained, which decides how sums are rounded; 0 if unknown.
        inconsistent: The comparisons of its self-check that failed, such as `cached = uncached`.
        diverged: What was not finite, or None. A cell that diverged has the scores of its untrained model.
        failure: Why the cell has no result, or None.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    arm: str
    seed: int
    loss: Score = math.nan
    metrics: dict[str, Score] = field(default_factory=dict)
    validation: dict[str, Score] = field(default_factory=dict)
    statistics: Statistics = field(default_factory=dict)
    curve: list[Record] = field(default_factory=list)
    peak_memory_mb: float = 0.0
    seconds: float = 0.0
    tokens: int = 0
    threads: int = 0
    directory: str = ""
    inconsistent: list[str] = field(default_factory=list)
    diverged: str | None = None
    failure: str | None = None

    def save(self, folder: Path) -> None:
        """Writes `cell_statistics.npz`, then `cell.json` with everything else.

        Raises:
            RunError: The disk is full or the place cannot be written.
        """
        save_arrays(folder / _STATISTICS, self.statistics)
        write(folder / RESULT, json.dumps(self.record(), ensure_ascii=False, indent=2))

    @classmethod
    def load(cls, folder: Path) -> "CellResult":
        """Returns the result that `save` wrote; raises RunError if a file is damaged."""
        with _readable(folder / RESULT):
            return cls.of(read_json(folder / RESULT), load_arrays(folder / _STATISTICS))

    def record(self) -> Record:
        """Returns everything but the statistics, as JSON can hold it: None for infinity and NaN."""
        record: Record = json.loads(_CELL_RESULT.dump_json(self, exclude={"statistics"}))
        return record

    @classmethod
    def of(cls, record: Record, statistics: Statistics) -> "CellResult":
        """Returns the result that a record was made of; raises ValueError if it is not one."""
        return _CELL_RESULT.validate_python({**record, "statistics": statistics})

    def check(self, metrics: Mapping[str, Metric], files: Mapping[Path, Mapping[str, float]]) -> None:
        """Compares the scores in files, by metric, with those of the statistics, by which a study is judged.

        Raises:
            RunError: They differ, so that a file was changed.
        """
        computed = {
            name: metrics[name].aggregate(rows) for name, rows in self.statistics.items() if name in metrics
        }
        for file, stated in files.items():
            for name in computed.keys() & stated.keys():
                if not math.isclose(stated[name], computed[name], rel_tol=1e-6):
                    raise RunError(
                        f"{file} was changed: it states {name} {stated[name]:g} ({self.arm}, seed "
                        f"{self.seed}), but the statistics of the examples give {computed[name]:g}; restore "
                        "the file from a copy, or remove its folder and run the study again"
                    )


_CELL_RESULT = TypeAdapter(CellResult)


@dataclass(frozen=True)
class StudyResults:
    """A whole study.

    Attributes:
        study: The study as it was declared, every default filled in; `study` is its title, `metric` the
            primary metric and `split` the split it is decided on, each by task if it has several, `seeds` a
            list.
        arms: A record of each, in the order of the study, the baseline first: its `name`; `values`, a label
            of each factor's value; `baseline`, the arm that it is compared with, None for the baseline;
            `metric` and `split`, by which it is judged; `start`, the arm of an earlier task from which it
            starts, or None, and the `parts` that it takes; `task`, its configuration without the seed;
            `notes` on differences from the baseline besides the factors; `tuned`, the settings that tuning
            chose, and which of them are at the `edges` of what was tried; `choices`, if each seed chose for
            itself, and then `task` has the first settings that were tried; and `cost`, what an `update`
            costs, as of `relative_cost` or None, and the costs that were counted, of the usual choice.
        cells: One for each arm and seed, failed ones included.
        made_of: `versions`, `code` (a hash), `components` and `data`, as in a run's lock; of cells that were
            `accepted`, though they have other code, their directories by its hash.
        metrics: The metrics of each arm by name, which aggregate statistics and know their direction.
        trials: A record of each training that settings were chosen by: the `arm`, what was `tuned`, the
            `seed`, what the training gave on validation, and whether it `decides`: it is then a cell.
        preparation: `arm`, `seed`, `seconds` and `failure` of each training of screening, and of those that
            trials start from.
        screening: A record of each arm that was screened: its p, and whether it was `confirmed`, so that it
            is among `arms`.
        looks: Earlier reports of this folder.
    """

    study: dict[str, Any]
    arms: tuple[Record, ...]
    cells: tuple[CellResult, ...]
    made_of: dict[str, Any]
    metrics: dict[str, dict[str, Metric]]
    trials: tuple[Record, ...] = ()
    preparation: tuple[Record, ...] = ()
    looks: tuple[LookRecord, ...] = ()
    screening: tuple[Record, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether any training failed, for whatever purpose."""
        others = (*self.trials, *self.preparation)
        return any(cell.failure for cell in self.cells) or any(each.get("failure") for each in others)

    def files(self, judged: Record) -> dict[str, str | bytes]:
        """Returns the files from which `load` reads these results, by name.

        `judged` is the record of their findings. `report.json` holds it with a record of each cell, and
        `cells.npz` the statistics of examples, under the number of the cell and the name of the metric.
        """
        record = {**judged, "cells": [cell.record() for cell in self.cells]}
        arrays = {
            f"{number}/{name}": rows
            for number, cell in enumerate(self.cells)
            for name, rows in cell.statistics.items()
        }
        text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)
        return {REPORT: text, _ARRAYS: _packed(arrays)}

    @classmethod
    def load(cls, folder: Path, registry: Registry) -> "StudyResults":
        """Reads the results from the report in a folder, without any cell, data or checkpoint.

        Raises:
            RegistryError: The registry does not have a metric.
            RunError: A file is missing or damaged, or its scores are not those of the statistics.
        """
        file = folder / REPORT
        record, arrays = read_json(file), load_arrays(folder / _ARRAYS)
        statistics: dict[str, Statistics] = defaultdict(dict)
        for key, rows in arrays.items():
            number, _, name = key.partition("/")
            statistics[number][name] = rows
        with _readable(file):
            REPORT_RECORD.validate_python(record)
            cells = [CellResult.of(cell, statistics[str(n)]) for n, cell in enumerate(record["cells"])]
            arms = [
                {"name": arm["arm"], "notes": arm["remarks"], "choices": arm.get("choices", [])}
                | {key: arm[key] for key in (*RECORDED, "task", "cost")}
                for arm in record["arms"]
            ]
            of_tasks = {arm["values"].get("task", ""): arm for arm in reversed(arms)}
            known = {task: metrics_of(arm["task"], registry) for task, arm in of_tasks.items()}
            metrics = {arm["name"]: known[arm["values"].get("task", "")] for arm in arms}
            more: dict[str, Any] = {
                key: tuple(record[key]) for key in ("trials", "preparation", "looks", "screening")
            }
            results = cls(record["study"], tuple(arms), tuple(cells), record["made_of"], metrics, **more)
        for cell in cells:
            cell.check(metrics[cell.arm], {file: cell.metrics})
        return results

    def moved(self) -> "StudyResults":
        """Returns the same with directories of cells relative to the study's folder."""
        names = ["/".join(Path(cell.directory).parts[-2:]) for cell in self.cells]
        cells = (replace(cell, directory=name) for cell, name in zip(self.cells, names, strict=True))
        return replace(self, cells=tuple(cells))

    def cells_of(self, arm: str) -> list[CellResult]:
        """Returns an arm's cells that did not fail, by rising seed."""
        cells = (cell for cell in self.cells if cell.arm == arm and cell.failure is None)
        return sorted(cells, key=lambda cell: cell.seed)

    def table(self) -> DataFrame:
        """Returns a row for each cell, failed ones included."""
        names = (*MEASURED, "directory", "diverged", "failure")
        return DataFrame(
            {"arm": cell.arm, "seed": cell.seed, "loss": cell.loss, **cell.metrics}
            | {name: getattr(cell, name) for name in names}
            for cell in self.cells
        )


def flops_of(arm: Mapping[str, Any], seed: int) -> float:
    """Returns the operations of a forward pass for each token, of an arm as a seed has trained it."""
    chosen = [choice["cost"] for choice in arm["choices"] if seed in choice["seeds"]]
    return float((chosen or [arm["cost"]])[0]["flops"])


def read_looks(folder: Path) -> tuple[LookRecord, ...]:
    """Returns the looks that the last report in a study's folder records; none if there is no report."""
    if not (folder / REPORT).exists():
        return ()
    with _readable(folder / REPORT):
        looks = TypeAdapter(tuple[LookRecord, ...])
        return looks.validate_python(read_json(folder / REPORT)["looks"])


def metrics_of(task: Record, registry: Registry) -> dict[str, Metric]:
    """Returns the metrics of a task as a file has it, by the names of their scores."""
    blocks = [Component.model_validate(block) for block in task["evaluation"]["metrics"]]
    options = [dict(block.options) for block in blocks]
    names = [given.pop("as", block.name) for block, given in zip(blocks, options, strict=True)]
    return {
        name: registry.create(Kind.METRIC, block.name, **given)
        for name, block, given in zip(names, blocks, options, strict=True)
    }


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    """Raises RunError if what is read from a file is not what was expected there."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:  # pydantic's, too
        raise RunError(
            f"{file} is damaged, or of another version of Plugformer ({described(error)}); restore it from a "
            "copy, or run the study again"
        ) from error


def read_if_there(path: Path) -> Any:
    """Returns what a JSON file says; one that is gone, not yet written or damaged says nothing: {}."""
    with suppress(OSError, ValueError):
        return json.loads(path.read_bytes())
    return {}


def write(path: Path, content: str | bytes) -> None:
    """Writes a file in one step; raises RunError if that is impossible."""
    with replacing(path) as temporary:
        temporary.write_bytes(content if isinstance(content, bytes) else content.encode())


def save_arrays(path: Path, arrays: Mapping[str, ndarray]) -> None:
    """Writes arrays of numbers, replacing what was there in one step."""
    write(path, _packed(arrays))


def _packed(arrays: Mapping[str, ndarray]) -> bytes:
    numbers: dict[str, Any] = {name: np.asarray(rows, dtype=np.float64) for name, rows in arrays.items()}
    file = io.BytesIO()
    np.savez_compressed(file, **numbers)
    return file.getvalue()


def load_arrays(path: Path) -> Statistics:
    """Reads arrays of numbers; nothing is unpickled. Raises RunError if the file is missing or damaged."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            return {name: file[name].astype(np.float64) for name in file.files}
    except (OSError, ValueError, EOFError, KeyError, TypeError, BadZipFile, zlib.error) as error:
        raise RunError(
            f"{path} is missing or damaged ({described(error)}); restore it from a copy, or remove its "
            "folder and run the study again"
        ) from error
