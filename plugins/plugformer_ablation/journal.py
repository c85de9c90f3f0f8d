"""What is noted in a study's folder: which study it is, and what its cells were made of when it ran last."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

from plugformer.configuration import short_name
from plugformer.errors import RunError
from plugformer.runs import read_json, write_json
from plugformer_ablation.cell import CELLS, Cell
from plugformer_ablation.identity import Ingredients, changes
from plugformer_ablation.study import Study

_STUDY, _FILE = "study.json", "made_of.json"


def claim(study: Study, out: Path) -> None:
    """Notes which study a folder is of; the same one may have changed meanwhile.

    Raises:
        RunError: It is another's, whose results would be overwritten, or the note is damaged.
    """
    path = out / _STUDY
    if path.exists():
        try:
            before = Study.model_validate(read_json(path))
        except ValueError as error:
            raise RunError(f"{path} is damaged; remove it if {out} is of this study") from error
        if not _same(before, study):
            title = before.study or f"{before.task}: {', '.join(before.factors)}"
            raise RunError(f"{out} has the results of another study, {title!r}: give another --out")
    write_json(path, study.model_dump(mode="json", by_alias=True))


def _same(before: Study, now: Study) -> bool:
    """Whether both are of one study: of the same task, with the same title or else a factor in common."""
    if short_name(before.task) != short_name(now.task):
        return False
    if before.study and now.study:
        return before.study == now.study
    paths = [{factor.path for factor in each.factors.values()} for each in (before, now)]
    return bool(set.intersection(*paths))


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
