"""Tables: comma- or tab-separated text, JSON lines, Parquet, each plain or gzipped."""

import csv
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from plugformer.errors import ConfigurationError, DataError, nearest
from plugformer.interfaces import Column
from plugformer_blocks import check_file, open_bytes, read_lines
from plugformer_plugins.column.texts import read_text
from plugformer_plugins.data.files import FileData, Keys, OneOrMore, SplitName, one_or_more
from plugformer_plugins.data.rows import LoadedRow, Policy, loaded_row, needed

TableColumn = str | Annotated[int, Field(ge=1)]
"""A column by name, or by number from 1."""

Rows = Iterator[tuple[str, list[Any]] | DataError]
"""The place of each row and its cells in some columns, or the error of a malformed row."""

Find = Callable[[Sequence[str], int], list[int]]
"""From the names of columns, or none, and their number to the positions of some."""

LONGEST_CELL = 10**7
"""Characters of a quoted cell: long enough for a document, shorter than what follows a missing quote."""

_JSON = (".json", ".jsonl", ".ndjson")
_DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": "\t"}


class TabularData(FileData):
    """Rows of files with columns: .csv, .tsv, .jsonl, .parquet, each also with .gz.

    Args:
        files: For each split a file, or several that are concatenated.
        columns: For each column of the task, such as `source` and `target`, the column of the table: by name,
            or by number from 1; the columns of a list are joined. If None, the columns of the same names, or
            the first ones if columns have no names.
        separator: Between the texts of joined columns. With white space, empty texts are left out; with
            anything else, such as " [SEP] ", every column keeps its place.
        header: Whether the first line of separated text names the columns.
        labels: Names of the classes in order. Files contain the names, or their numbers. If None, the labels
            of the training examples.
        zero_based: Whether labels that are numbers count from 0 or from 1. If None, from 0 if 0 occurs, from
            1 if the number of classes occurs; otherwise, and in streams, numbers are refused.
        delimiter: Between columns of separated text: a comma for .csv, a tab for .tsv, .tab and .txt. With
            a tab, double quotes have no meaning.
        bad_rows: Whether a malformed row (a wrong number of columns, an empty cell, an unknown label, bytes
            that are not UTF-8, invalid JSON) stops the reading, or is skipped, counted and reported.
    """

    def __init__(
        self,
        *,
        files: dict[SplitName, OneOrMore[Path]],
        columns: dict[str, OneOrMore[TableColumn]] | None = None,
        separator: Annotated[str, Field(min_length=1)] = " ",
        header: bool = True,
        labels: list[str] | None = None,
        zero_based: bool | None = None,
        delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = None,
        bad_rows: Policy = "refuse",
    ) -> None:
        self._files = files
        self._columns = columns
        self._separator = separator
        self._header = header
        self._labels = labels
        self._zero_based = zero_based
        self._delimiter = delimiter
        self._bad_rows = bad_rows

    def problems(self, columns: Sequence[Column]) -> Iterator[tuple[Keys, str]]:
        """Yields columns that the task does not have, and what is wrong with files up to their first row."""
        for keys, file in self.placed():
            try:
                next(self.read(file, needed(columns)), None)
            except ConfigurationError as error:
                yield ("columns",), str(error)
                return
            except DataError as error:
                yield keys, str(error)

    def read(self, source: Path, columns: Sequence[Column]) -> Iterator[LoadedRow | DataError]:
        """Yields the rows of a file.

        Raises:
            ConfigurationError: A column is not there, or `columns` does not name the task's columns.
            DataError: The format is unknown, or the file cannot be read to its end.
        """
        wanted = self._wanted(columns)

        def find(names: Sequence[str], count: int) -> list[int]:
            return [find_column(place, names, count) for places in wanted for place in places]

        for row in self._cells(source, find):
            if isinstance(row, DataError):
                yield row
                continue
            place, cells = row
            remaining = iter(cells)
            try:
                joined = [
                    self._joined(list(islice(remaining, len(places))), column, place)
                    for places, column in zip(wanted, columns, strict=True)
                ]
                yield loaded_row(joined, columns, place)
            except DataError as error:
                yield error

    def _cells(self, file: Path, find: Find) -> Rows:
        suffix = Path(file.stem).suffix if file.suffix == ".gz" else file.suffix
        strict = self._bad_rows == "refuse"
        if suffix in _JSON:
            return _json_lines(file, find, strict)
        if suffix == ".parquet":
            return _parquet(file, find)
        delimiter = self._delimiter or _DELIMITERS.get(suffix)
        if delimiter is None:
            known = ", ".join([*_DELIMITERS, *_JSON, ".parquet"])
            raise DataError(
                f"data 'table': cannot tell the format of {file}; expected one of {known}, each also with "
                ".gz; rename it, or set delimiter"
            )
        return _separated(file, find, delimiter, header=self._header, strict=strict)

    def _wanted(self, columns: Sequence[Column]) -> list[list[TableColumn]]:
        """Returns the table's columns for each column of the task, in the task's order."""
        names = [column.name for column in columns]
        if self._columns is None:
            return [[name if self._header else number] for number, name in enumerate(names, start=1)]
        for name in [*self._columns, *names]:
            if name not in names or name not in self._columns:
                problem = (
                    f"unknown key {name!r}{nearest(name, names)}"
                    if name in self._columns
                    else (f"{name!r} is missing")
                )
                raise ConfigurationError(
                    f"data 'table': columns: {problem}; name a column of the table for each of {names}"
                )
        return [one_or_more(self._columns[name]) for name in names]

    def _joined(self, cells: list[Any], column: Column, place: str) -> Any:
        """Returns a cell, or the joined texts of several, of which one may be empty."""
        if len(cells) == 1:
            return cells[0]
        try:
            texts = ["" if cell is None or not str(cell).strip() else read_text(cell) for cell in cells]
        except ValueError as error:
            raise DataError(f"{place}: the {column.name} {error}") from error
        if any(texts) and self._separator.strip():
            return self._separator.join(texts)
        return self._separator.join(filter(None, texts))


def find_column(column: TableColumn, names: Sequence[str], count: int) -> int:
    """Returns the position, from 0, of one of `count` columns, which may have no names.

    A text is a number where no column has that name; an integer is a name where there is no such number.

    Raises:
        ConfigurationError: There is no such column, or several have that name.
    """
    name = str(column)
    is_number = name.isdecimal() and 1 <= int(name) <= count
    if is_number and (isinstance(column, int) or name not in names):
        return int(name) - 1
    if list(names).count(name) == 1:
        return names.index(name)
    known = list(names) or [str(number) for number in range(1, count + 1)]
    problem = f"there is no column {column!r}{nearest(name, known)}"
    if name in names:
        problem = f"several columns are called {name!r}"
    raise ConfigurationError(
        f"{problem}; expected one of {known}, or a number; correct data.columns, or data.header if the first "
        "line is no header"
    )


def _separated(file: Path, find: Find, delimiter: str, *, header: bool, strict: bool) -> Rows:
    csv.field_size_limit(LONGEST_CELL)
    quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    lines = (f"{line}\n" for line in read_lines(file, strict=strict))
    reader = csv.reader(lines, delimiter=delimiter, strict=True, quoting=quoting)
    width, positions = 0, None
    while True:
        place = f"{file}:{reader.line_num + 1}"
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            malformed = DataError(f"{place}: {error}; correct the line")
            if positions is None:
                raise malformed from error
            yield malformed
            continue
        if positions is None:
            width = len(cells)
            try:
                positions = find(cells if header else [], width)
            except ConfigurationError as error:
                raise ConfigurationError(f"{place}: {error}") from None
            if header:
                continue
        if len(cells) == width:
            yield place, [cells[position] for position in positions]
        else:
            yield DataError(
                f"{place}: number of columns: {len(cells)}, expected {width} as in the first line; correct "
                f"the line, or the delimiter {delimiter!r}"
            )


def _json_lines(file: Path, find: Find, strict: bool) -> Rows:
    for line, text in enumerate(read_lines(file, strict=strict), start=1):
        place = f"{file}:{line}"
        try:
            cells = json.loads(text)
            if not isinstance(cells, dict):
                raise DataError(f"expected a JSON object, found {text[:40]!r}; name the columns")
            values = list(cells.values())
            yield place, [values[position] for position in find(list(cells), 0)]
        except (ConfigurationError, DataError) as error:
            yield DataError(f"{place}: {error}")
        except (ValueError, RecursionError) as error:
            yield DataError(f"{place}: not JSON: {error}; each line must be one object")


def _parquet(file: Path, find: Find) -> Rows:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    check_file(file)
    try:
        with open_bytes(file) as stream:
            table = ParquetFile(stream)
            names = table.schema_arrow.names
            positions = find(names, len(names))
            number = 0
            for batch in table.iter_batches(1000):
                for cells in zip(*(batch.column(place).to_pylist() for place in positions), strict=True):
                    number += 1
                    yield f"{file}, row {number}", list(cells)
    except ConfigurationError as error:
        raise ConfigurationError(f"{file}: {error}") from None
    except (ArrowException, OSError, EOFError, OverflowError, ValueError, zlib.error) as error:
        raise DataError(f"{file}: not a readable Parquet file: {error}; write it again") from error
