"""What the cells of a study were made of when it ran last, so that it can say why some are run again."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

from plugformer.ablation.cell import CELLS, Cell
from plugformer.ablation.identity import Ingredients, changes
from plugformer.errors import RunError
from plugformer.runs.files import read_json, write_json

_FILE = "made_of.json"


def tell_changes(cells: Iterable[Cell], out: Path, notify: Callable[[str], None]) -> None:
    """Says which cells must be run although others of the same name are there, and why; then takes note.

    Args:
        cells: Those that are about to be run, or looked up.
        out: The study's folder.
        notify: Receives a message for each reason.
    """
    path = out / CELLS / _FILE
    before = _read(path)
    reasons: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for cell in cells:
        old = before.get(str(cell))
        if old is not None and not cell.finished and (found := changes(old, cell.ingredients)):
            reasons[tuple(found)].append(str(cell))
    for why, names in reasons.items():
        what = f"{len(names)} cells are run again" if len(names) > 1 else f"{names[0]} is run again"
        notify("\n  ".join([f"{what}, because of changes since the study ran here last:", *why]))
    write_json(path, {**before, **{str(cell): cell.ingredients for cell in cells}})


def _read(path: Path) -> dict[str, Ingredients]:
    """Returns what was noted; nothing if that is not there or damaged, since it only explains."""
    try:
        record = read_json(path)
    except RunError:
        return {}
    return record if isinstance(record, dict) else {}
