"""The rows of a file as questions: texts, or values by column of tables, with all that a row carries."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from plugformer.errors import ConfigurationError, DataError, PlugformerError, nearest

if TYPE_CHECKING:
    from plugformer.interfaces import Example

TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
"""How names of tables end, perhaps before .gz."""


def ending(file: Path) -> str:
    """Returns how a file's name ends, without .gz."""
    return Path(file.stem).suffix if file.suffix == ".gz" else file.suffix


class Question(NamedTuple):
    """What a row asks, or why it asks nothing; and its cells by column of the file."""

    asked: "str | Example | PlugformerError"
    cells: Mapping[str, Any]


class Lines:
    """The lines of a text, one question on each; of standard input if there is no file."""

    columns = ("input",)

    def __init__(self, file: Path | None) -> None:
        self._file = file

    def __iter__(self) -> Iterator[Question]:
        """Yields the questions; DataError if the file cannot be read to its end."""
        from plugformer_blocks import read_lines

        texts: Iterable[str] = chain.from_iterable(lines(sys.stdin.buffer))
        if self._file is not None:
            texts = read_lines(self._file, strict=False)
        return (Question(text, {"input": text}) for text in texts)

    def count(self) -> int | None:
        """Returns the number of lines of a file."""
        return None if self._file is None else sum(1 for _ in self)


class Table:
    """The rows of a table, with an input of the task in some of its columns.

    Args:
        file: .csv, .tsv, .jsonl or .parquet, perhaps with .gz.
        needed: Names of inputs that each row has.
        optional: Names of inputs that a table may lack.
        places: For inputs the columns of the table, by name or number from 1, if they have other names.
        header: Whether the first line of .csv and .tsv names the columns.
    """

    def __init__(
        self,
        file: Path,
        needed: Sequence[str],
        optional: Sequence[str] = (),
        places: Mapping[str, Sequence[str]] | None = None,
        *,
        header: bool = True,
    ) -> None:
        self._file = file
        self._places = {} if places is None else dict(places)
        known = [*needed, *optional]
        for name in self._places:
            if name not in known:
                problem = f"there is no input {name!r}{nearest(name, known)}"
                raise ConfigurationError(f"--column: {problem}; expected {' or '.join(known)}")
        for number, name in enumerate(needed, start=1):
            self._places.setdefault(name, [name if header else str(number)])
        self._optional = [name for name in optional if name not in self._places]
        self._header = header
        self._names: Sequence[str] = ()

    @property
    def columns(self) -> Sequence[str]:
        """Names of the columns; those of its first row if the file has no others."""
        next((question for question in self if question.cells), None)
        return self._names

    def count(self) -> int:
        """Returns the number of rows."""
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Question]:
        """Yields the questions.

        Raises:
            ConfigurationError: A column is not there, or two have the same name.
            DataError: The file cannot be read to its end.
        """
        from plugformer_blocks import table_cells

        found: dict[str, list[int]] = {}

        def find(names: Sequence[str], count: int) -> list[int]:
            self._names = list(names) or [str(number) for number in range(1, count + 1)]
            found.clear()
            found.update(self._find(self._names))
            return list(range(len(self._names)))

        for row in table_cells(self._file, find, header=self._header, strict=False):
            if isinstance(row, DataError):
                yield Question(row, {})
                continue
            _, cells = row
            asked = {name: _joined([cells[at] for at in places]) for name, places in found.items()}
            yield Question(asked, dict(zip(self._names, cells, strict=True)))

    def _find(self, names: Sequence[str]) -> dict[str, list[int]]:
        """Returns the positions of each input's columns."""
        from plugformer_blocks import find_column

        twice = next((name for name in names if list(names).count(name) > 1), None)
        if twice is not None:
            raise ConfigurationError(f"two columns are called {twice!r}; rename one, or use --no-header")
        hint = "name another with --column, or use --no-header if the first line is no header"
        present = {name: [name] for name in self._optional if name in names}
        return {
            name: [find_column(place, names, len(names), hint) for place in places]
            for name, places in (self._places | present).items()
        }


def _joined(cells: Sequence[Any]) -> Any:
    """Returns a cell, or the texts of several with spaces between."""
    if len(cells) == 1:
        return cells[0]
    return " ".join(text for cell in cells if (text := "" if cell is None else str(cell).strip()))


def places_of(options: Iterable[str]) -> dict[str, list[str]]:
    """Returns the columns of a table for each input, from options such as `text=title`."""
    places: dict[str, list[str]] = {}
    for option in options:
        name, sign, column = option.partition("=")
        if not (name and sign and column):
            raise ConfigurationError(f"--column {option!r}: expected INPUT=COLUMN, such as text=title")
        places.setdefault(name, []).append(column)
    return places


def lines(stream: BinaryIO) -> Iterator[list[str]]:
    """Yields the lines of UTF-8 text in the portions in which they arrive.

    A file gives many at a time, which is fast; a slow writer gets an answer to each line at once. Bytes that
    are not UTF-8 become lone surrogates.
    """
    rest = b""
    while portion := stream.read1(1 << 16):  # type: ignore[attr-defined]  # every buffered reader has it
        *complete, rest = (rest + portion).split(b"\n")
        if complete:
            yield [_decoded(line) for line in complete]
    if rest:
        yield [_decoded(rest)]


def _decoded(line: bytes) -> str:
    """Returns a line as text, without carriage return and byte order mark."""
    return line.removesuffix(b"\r").decode(errors="surrogateescape").removeprefix("\ufeff")


def opened(file: Path) -> BinaryIO:
    """Opens a text, which is unpacked if its name ends in .gz; raises DataError if that is impossible."""
    import gzip

    try:
        return gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb")  # type: ignore[return-value]
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}; give an existing file") from error
