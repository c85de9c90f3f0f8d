"""Finished cells that differ from what a study asks for in the code of Plugformer alone: they may count."""

import json
import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import plugformer
from plugformer_ablation.judging.results import RESULT, CellResult, Record, read_if_there
from plugformer_ablation.running.cells import CELLS, Cell, Ingredients, identity

MADE_OF = "made_of.json"


def save_code(cell: Cell) -> None:
    """Records with which code a cell is trained, and a hash of everything else."""
    record = {"code": cell.ingredients["code"], "others": _others(cell)}
    (cell.folder / MADE_OF).write_text(json.dumps(record))


def to_train(cells: Sequence[Cell], out: Path, notify: Callable[[str], None], *, accept: bool) -> list[Cell]:
    """Returns the cells without a result; others with other code count for them if that is to be accepted.

    An accepted cell is linked from the place of the one that is asked for, so that it counts for all
    processes, now and later.
    """
    waiting = [cell for cell in cells if not cell.finished]
    known: dict[str, list[str]] = defaultdict(list)
    for name in os.listdir(out / CELLS) if waiting else ():  # noqa: PTH208 (40,000 names, not paths)
        known[name.rpartition("-")[0]].append(name)
    found = {
        cell.name: name
        for cell in waiting
        for name in known[cell.name.rpartition("-")[0]]
        if "." not in name[-12:]
        and (out / CELLS / name / RESULT).is_file()
        and not cell.folder.exists()
        and read_if_there(out / CELLS / name / MADE_OF).get("others") == _others(cell)
    }
    if found and not accept:
        notify(
            f"{len(found)} finished cells differ from these in the code of Plugformer alone, and are trained "
            "again; --accept-code takes them as they are"
        )
        return waiting
    for name, other in found.items():
        with suppress(FileExistsError):  # another worker has accepted it
            (out / CELLS / name).symlink_to(other)
    return [cell for cell in waiting if not cell.finished]


def accepted(cells: Sequence[CellResult]) -> Record:
    """Returns the directories of accepted cells, by the hash of the code with which they were trained."""
    found: dict[str, list[str]] = defaultdict(list)
    for cell in cells:
        if Path(cell.directory).is_symlink():
            code = read_if_there(Path(cell.directory, MADE_OF))["code"]
            found[code].append(f"{CELLS}/{Path(cell.directory).name}")
    return {"accepted": dict(found)} if found else {}


def _others(cell: Cell) -> str:
    """Returns a hash of what a cell is made of but the code of Plugformer and of its own components."""
    parts: Ingredients = {key: part for key, part in cell.ingredients.items() if key != "code"}
    versions = {name: version for name, version in parts["versions"].items() if name != "plugformer"}
    components = {
        name: "built in" if lock["distribution"] == plugformer.__name__ else lock
        for name, lock in parts["components"].items()
    }
    return identity({**parts, "versions": versions, "components": components}, cell.folder.parents[1])
