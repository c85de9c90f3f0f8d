"""Questions to a model: texts, lines of standard input, and the rows of files with all their columns."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar

from plugformer.errors import ConfigurationError, DataError, PlugformerError, nearest

if TYPE_CHECKING:
    from plugformer.interfaces import Example, TaskType

T = TypeVar("T")

TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
"""How names of tables end, perhaps before .gz."""


class Question(NamedTuple):
    """A text, or values by column of a table.

    Attributes:
        asked: What the model is asked, or why it cannot be asked.
        shown: What records of answers show as the input.
        cells: The row of the file, by column.
    """

    asked: "str | Example | PlugformerError"
    shown: Any
    cells: Mapping[str, Any]


def ending(file: Path) -> str:
    """Returns how a file's name ends, without .gz."""
    return Path(file.stem).suffix if file.suffix == ".gz" else file.suffix


def text_question(text: str, *, is_json: bool = False) -> Question:
    """Returns a text as a question, or the JSON object that it holds."""
    return Question(_object(text) if is_json else text, text, {"input": text})


def lines_of(file: Path, *, is_json: bool = False) -> Iterator[Question]:
    """Yields the lines of a file as questions; DataError if it cannot be read to its end."""
    from plugformer_blocks import read_lines

    return (text_question(text, is_json=is_json) for text in read_lines(file, strict=False))


def rows_of(
    file: Path,
    needed: Sequence[str],
    optional: Sequence[str] = (),
    places: Mapping[str, Sequence[str]] | None = None,
    *,
    header: bool = True,
    names: list[str],
) -> Iterator[Question]:
    """Yields the rows of a table as questions, with an input of the task in some of its columns.

    Args:
        file: .csv, .tsv, .jsonl or .parquet, perhaps with .gz.
        needed: Names of inputs that each row has.
        optional: Names of inputs that a table may lack.
        places: For inputs the columns of the table, by name or number from 1, if they have other names.
        header: Whether the first line of .csv and .tsv names the columns.
        names: Receives the names of the columns, of a table without rows as well.

    Raises:
        ConfigurationError: A column or an input is not there, or two columns have the same name.
        DataError: The file cannot be read to its end.
    """
    from plugformer_blocks import find_column, table_cells

    known, columns = [*needed, *optional], dict(places or {})
    for name in columns:
        if name not in known:
            problem = f"there is no input {name!r}{nearest(name, known)}"
            raise ConfigurationError(f"--column: {problem}; expected {' or '.join(known)}")
    for number, name in enumerate(needed, start=1):
        columns.setdefault(name, [name if header else str(number)])
    inputs: dict[str, list[int]] = {}
    faults: list[ConfigurationError] = []  # of a row of JSON lines, whose cells are kept

    def find(header: Sequence[str], count: int) -> list[int]:
        names[:] = header or map(str, range(1, count + 1))
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ConfigurationError(f"two columns are called {twice!r}; rename one, or use --no-header")
        hint = "name another with --column, or use --no-header if the first line is no header"
        present = {name: [name] for name in optional if name in names}
        inputs.clear()
        faults.clear()
        try:
            for name, wanted in (present | columns).items():
                inputs[name] = [find_column(place, names, len(names), hint) for place in wanted]
        except ConfigurationError as error:
            if ending(file) != ".jsonl":
                raise
            faults.append(error)
        return list(range(len(names)))

    for row in table_cells(file, find, header=header, strict=False):
        if isinstance(row, DataError):
            yield Question(row, None, {})
            continue
        place, cells = row
        values = dict(zip(names, cells, strict=True))
        if faults:
            yield Question(DataError(f"{place}: {faults[0]}"), values, values)
            continue
        asked = {name: _joined([cells[place] for place in inputs[name]]) for name in inputs}
        yield Question(asked, asked, values)


def inputs_of(task_type: "TaskType", *, only: str | None) -> tuple[list[str], list[str]]:
    """Returns the columns that questions have, and those that they may have; or one of them."""
    inputs = [column for column in task_type.columns if column.role == "input"]
    if only is not None:
        return [only or inputs[0].name], []
    optional = [column.name for column in inputs if column.optional]
    return [column.name for column in inputs if not column.optional], optional


def columns_and_count(questions: Iterable[Question]) -> tuple[list[str], int]:
    """Returns the columns of all questions, and the number of these."""
    columns: dict[str, None] = {}
    count = 0
    for count, question in enumerate(questions, start=1):  # noqa: B007 (the last is the number)
        columns |= dict.fromkeys(question.cells)
    return [*columns], count


def _joined(cells: Sequence[Any]) -> Any:
    """Returns a cell, or the texts of several with spaces between."""
    if len(cells) == 1:
        return cells[0]
    return " ".join(text for cell in cells if (text := "" if cell is None else str(cell).strip()))


def _object(text: str) -> "Example | PlugformerError":
    import json

    try:
        example = json.loads(text)
    except ValueError as error:
        return DataError(f"{text[:40]!r} is no JSON: {error}")
    if not isinstance(example, dict):
        return DataError(f"{text[:40]!r} is no object; write {{COLUMN: VALUE, ...}}")
    return example


def places_of(options: Iterable[str]) -> dict[str, list[str]]:
    """Returns the columns of a table for each input, from options such as `text=title`."""
    places: dict[str, list[str]] = {}
    for option in options:
        name, sign, column = option.partition("=")
        if not (name and sign and column):
            raise ConfigurationError(f"--column {option!r}: expected INPUT=COLUMN, such as text=title")
        places.setdefault(name, []).append(column)
    return places


def portions(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yields items in lists of some size; the last may be shorter."""
    following = iter(items)
    return iter(lambda: list(islice(following, size)), [])


def arriving(stream: BinaryIO, question: Callable[[str], Question], size: int) -> Iterator[list[Question]]:
    """Yields lines of UTF-8 text in the portions in which they arrive, at most some at a time.

    A file gives many at a time, which is fast; a slow writer gets an answer to each line at once. Bytes that
    are not UTF-8 become lone surrogates.
    """
    rest = b""
    while chunk := stream.read1(1 << 16):  # type: ignore[attr-defined]  # every buffered reader has it
        *complete, rest = (rest + chunk).split(b"\n")
        yield from portions((question(_decoded(line)) for line in complete), size)
    if rest:
        yield [question(_decoded(rest))]


def _decoded(line: bytes) -> str:
    """Returns a line as text, without carriage return and byte order mark."""
    return line.removesuffix(b"\r").decode(errors="surrogateescape").removeprefix("\ufeff")
