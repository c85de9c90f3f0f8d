"""Reading the rows of tables: comma- or tab-separated text, JSON lines, Parquet, each plain or gzipped."""

import csv
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from plugformer.data import check_file, open_bytes, read_lines
from plugformer.errors import ConfigurationError, DataError, nearest

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyarrow.parquet import ParquetFile


Column = str | int
"""A column by name, or by number from 1."""


class Layout:
    """The columns of a table.

    Args:
        count: How many there are.
        names: Their names; none where they have none.
    """

    def __init__(self, count: int, names: Sequence[str] = ()) -> None:
        self.names = names
        self._positions: dict[Column, int] = {number: number - 1 for number in range(1, count + 1)}
        once = {name for name, times in Counter(names).items() if times == 1}
        self._positions |= {name: position for position, name in enumerate(names) if name in once}

    def position(self, column: Column) -> int:
        """Returns the index of a column's cell in a row.

        Raises:
            DataError: There is no such column, or several have that name.
        """
        if column in self._positions:
            return self._positions[column]
        if (times := list(self.names).count(str(column))) > 1:
            raise DataError(f"{times} columns are called {column!r}; give data.columns the number of one")
        # Where columns have no names, "2" is a number; where they have no numbers, 2 is a name.
        other: Column = int(column) if isinstance(column, str) and column.isdecimal() else str(column)
        if other in self._positions:
            return self._positions[other]
        known = list(self.names) or [str(number) for number in self._positions]
        raise DataError(
            f"there is no column {column!r}{nearest(str(column), known)}, only {known}; "
            "correct data.columns, or data.header if the first line is no header"
        )


class Row(NamedTuple):
    """One row.

    Attributes:
        cells: By position.
        layout: What stands in which position.
        place: The file and line of the row.
    """

    cells: Sequence[Any] | Mapping[int, Any]
    layout: Layout
    place: str

    def cell(self, column: Column) -> Any:
        """Returns the cell of a column.

        Raises:
            DataError: There is no such column, or several have that name.
        """
        try:
            return self.cells[self.layout.position(column)]
        except DataError as error:
            raise DataError(f"{self.place}: {error}") from None


LONGEST_CELL = 10**7
"""Characters of a cell in quotes: documents are long, but what a missing quote takes in is longer."""

_JSON = (".json", ".jsonl", ".ndjson")
_DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": "\t"}


def read_rows(
    file: Path,
    *,
    columns: Iterable[Column],
    delimiter: str | None,
    header: bool,
    strict: bool = True,
) -> Iterator[Row | DataError]:
    """Yields a table's rows, read as its name's suffix says; of a malformed row what is wrong with it.

    Args:
        file: Its suffix, before .gz, is .csv, .tsv, .tab, .txt, .jsonl, .ndjson, .json or .parquet.
        columns: Those that are needed.
        delimiter: Between columns; that of the suffix if None. Double quotes group cells unless it is a tab.
        header: Whether the first line of separated text names the columns.
        strict: Whether bytes that are not UTF-8 stop the reading; else they become lone surrogates.

    Raises:
        ConfigurationError: The suffix is none of these and no delimiter is given.
        DataError: The file cannot be read to its end.
    """
    suffix = _suffix(file)
    if suffix in _JSON:
        return _json_lines(file, strict)
    if suffix == ".parquet":
        return _parquet(file, columns)
    return _separated(read_lines(file, strict=strict), file, _separator(file, delimiter), header)


def read_layout(file: Path, *, delimiter: str | None, header: bool) -> Layout | None:
    """Returns the columns of a table, of which only the first line or the schema is read.

    Returns:
        The columns; None if each row has its own.

    Raises:
        ConfigurationError: As of `read_rows`.
        DataError: The file cannot be read.
    """
    suffix = _suffix(file)
    if suffix in _JSON:
        check_file(file)
        return None
    if suffix == ".parquet":
        with _opened(file) as table:
            return _layout(table)
    _, first = next(_records(read_lines(file), _separator(file, delimiter)))
    if isinstance(first, csv.Error):
        raise DataError(f"{file}:1: {first}; correct the quotes of the line")
    return Layout(len(first), first if header else ())


def _suffix(file: Path) -> str:
    return Path(file.stem).suffix if file.suffix == ".gz" else file.suffix


def _separator(file: Path, delimiter: str | None) -> str:
    """Returns the delimiter of separated text."""
    separator = delimiter or _DELIMITERS.get(_suffix(file))
    if separator is None:
        known = sorted([*_DELIMITERS, *_JSON, ".parquet"])
        raise ConfigurationError(
            f"data 'table': cannot tell the format of {file} from {_suffix(file)!r}; expected one of "
            f"{known}, each also with .gz; rename it, or set delimiter"
        )
    return separator


def _separated(lines: Iterator[str], file: Path, delimiter: str, header: bool) -> Iterator[Row | DataError]:
    layout, columns = None, 0
    for line, cells in _records(lines, delimiter):
        place = f"{file}:{line}"
        if isinstance(cells, csv.Error):
            fault = DataError(f"{place}: {cells}; correct the quotes of the line")
            if line == 1:  # without its first line a table cannot be understood
                raise fault from cells
            yield fault
            continue
        if layout is None:
            layout = Layout(len(cells), cells if header else ())
            columns = len(cells)
            if header:
                continue
        if header and columns > 1 and cells == layout.names:
            yield DataError(f"{place}: the header occurs again, as where files were joined; remove the line")
        elif len(cells) == columns:
            yield Row(cells, layout, place)
        else:
            yield DataError(
                f"{place}: {_columns(len(cells))}, expected {columns} as in the first line; "
                f"correct the line, or the delimiter {delimiter!r}"
            )


def _records(lines: Iterator[str], delimiter: str) -> Iterator[tuple[int, list[str] | csv.Error]]:
    """Yields each record's first line and its cells, or the error of parsing them."""
    if delimiter == "\t":  # no quotes, so that a line is a record, whatever it holds
        for number, line in enumerate(lines, start=1):
            text = line.rstrip("\r")
            yield number, text.split("\t") if text else []
        return
    csv.field_size_limit(LONGEST_CELL)
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, strict=True)
    while True:
        first = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield first, error
        else:
            yield first, cells


def _json_lines(file: Path, strict: bool) -> Iterator[Row | DataError]:
    for line, text in enumerate(read_lines(file, strict=strict), start=1):
        try:
            cells = json.loads(text, object_pairs_hook=_object)
        except DataError as error:
            yield DataError(f"{file}:{line}: {error}")
            continue
        except (ValueError, RecursionError) as error:
            yield DataError(f"{file}:{line}: not JSON: {error}; each line must be one object")
            continue
        if isinstance(cells, dict):
            yield Row(list(cells.values()), Layout(0, list(cells)), f"{file}:{line}")
        else:
            yield DataError(f"{file}:{line}: expected a JSON object, found {text[:40]!r}; name the columns")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns a JSON object.

    Raises:
        DataError: A key occurs twice, of which `json` would take the last.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise DataError(f"the key {twice!r} occurs twice in an object; leave one out")
    return found


def _parquet(file: Path, columns: Iterable[Column]) -> Iterator[Row | DataError]:
    with _opened(file) as table:
        layout, wanted = _layout(table), []
        for column in columns:
            with suppress(DataError):  # which the first row is told of
                wanted.append(layout.position(column))
        batches = (batch.select(wanted) for batch in table.iter_batches(1000))
        rows = (cells for batch in batches for cells in _cells(batch))
        for number, cells in enumerate(rows, start=1):
            place = f"{file}, row {number}"
            if isinstance(cells, Exception):
                yield DataError(f"{place}: {_reason(cells)}; write the file again")
            else:
                yield Row(dict(zip(wanted, cells, strict=True)), layout, place)


def _layout(table: "ParquetFile") -> Layout:
    names = table.schema_arrow.names
    return Layout(len(names), names)


@contextmanager
def _opened(file: Path) -> "Iterator[ParquetFile]":
    """Opens a Parquet file.

    Raises:
        DataError: It is none, or is damaged.
    """
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    check_file(file)
    try:
        with open_bytes(file) as stream:
            yield ParquetFile(stream)
    except (ArrowException, OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise DataError(f"{file}: not a readable Parquet file: {error}; write it again") from error


def _cells(batch: "RecordBatch") -> Iterator[list[Any] | Exception]:
    """Yields the rows of a batch; of one that cannot be decoded, the reason."""
    from pyarrow import ArrowException

    try:
        columns = [column.to_pylist() for column in batch.columns]
    except (OverflowError, ValueError) as error:  # not UTF-8, or a date that Python has not
        if isinstance(error, ArrowException):
            raise
        if batch.num_rows == 1:
            yield error
            return
        for number in range(batch.num_rows):
            yield from _cells(batch.slice(number, 1))
    else:
        yield from map(list, zip(*columns, strict=True)) if columns else ([] for _ in range(batch.num_rows))


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"a text is not UTF-8: {error}"
    return f"a cell cannot be read: {error}"


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"
