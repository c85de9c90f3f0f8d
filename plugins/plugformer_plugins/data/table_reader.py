"""Reading tables: comma- or tab-separated text, JSON lines, Parquet, each plain or gzipped."""

import csv
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plugformer.data import check_file, open_bytes, read_lines
from plugformer.errors import ConfigurationError, DataError, nearest

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile


TableColumn = str | int
"""A column by name, or by number from 1."""

LONGEST_CELL = 10**7
"""Characters of a quoted cell: long enough for a document, shorter than what follows a missing quote."""

_JSON = (".json", ".jsonl", ".ndjson")
_DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": "\t"}


def read_table(
    file: Path, columns: Sequence[TableColumn], *, delimiter: str | None, header: bool, strict: bool = True
) -> Iterator[tuple[str, list[Any]] | DataError]:
    """Yields the place of each row and its cells in some columns, or the error of a malformed row.

    Args:
        file: Its suffix, before .gz, is .csv, .tsv, .tab, .txt, .jsonl, .ndjson, .json or .parquet.
        columns: The columns to return, in this order.
        delimiter: Between columns of text; that of the suffix if None. Double quotes group cells unless it is
            a tab.
        header: Whether the first line of separated text names the columns.
        strict: Whether bytes that are not UTF-8 stop the reading; else they become lone surrogates.

    Raises:
        ConfigurationError: The suffix is none of these and no delimiter is given.
        DataError: The file cannot be read to its end, or it has no such column.
    """
    suffix = _suffix(file)
    if suffix in _JSON:
        return _json_lines(file, columns, strict)
    if suffix == ".parquet":
        return _parquet(file, columns)
    return _separated(file, columns, _delimiter(file, delimiter), header, strict)


def read_header(file: Path, *, delimiter: str | None, header: bool) -> tuple[int, list[str]] | None:
    """Returns the number of columns and their names, from the first line or the schema alone.

    The list is empty if columns have no names; the result is None if each row has its own columns.

    Raises:
        ConfigurationError: The format is unknown.
        DataError: The file cannot be read.
    """
    suffix = _suffix(file)
    if suffix in _JSON:
        check_file(file)
        return None
    if suffix == ".parquet":
        with _opened(file) as table:
            names: list[str] = table.schema_arrow.names
            return len(names), names
    _, first = next(_records(file, _delimiter(file, delimiter), strict=True))
    if isinstance(first, csv.Error):
        raise DataError(f"{file}:1: {first}; correct the quotes of the line")
    return len(first), first if header else []


def find_column(column: TableColumn, count: int, names: Sequence[str]) -> int:
    """Returns the position of a column, from 0.

    Args:
        column: Its number if that is an integer, else its name; where it has no such name, its number.
        count: Number of columns.
        names: Of the columns; empty if they have none.

    Raises:
        DataError: There is no such column, or several have that name.
    """
    if isinstance(column, int) and 1 <= column <= count:
        return column - 1
    name = str(column)
    times = list(names).count(name)
    if times == 1:
        return names.index(name)
    if times > 1:
        raise DataError(f"{times} columns are called {name!r}; give data.columns the number of one")
    if name.isdecimal() and 1 <= int(name) <= count:
        return int(name) - 1
    known = list(names) or [str(number) for number in range(1, count + 1)]
    raise DataError(
        f"there is no column {column!r}{nearest(name, known)}, only {known}; "
        "correct data.columns, or data.header if the first line is no header"
    )


def _suffix(file: Path) -> str:
    return Path(file.stem).suffix if file.suffix == ".gz" else file.suffix


def _delimiter(file: Path, delimiter: str | None) -> str:
    chosen = delimiter or _DELIMITERS.get(_suffix(file))
    if chosen is None:
        known = sorted([*_DELIMITERS, *_JSON, ".parquet"])
        raise ConfigurationError(
            f"data 'table': cannot tell the format of {file} from {_suffix(file)!r}; expected one of "
            f"{known}, each also with .gz; rename it, or set delimiter"
        )
    return chosen


def _separated(
    file: Path, columns: Sequence[TableColumn], delimiter: str, header: bool, strict: bool
) -> Iterator[tuple[str, list[Any]] | DataError]:
    first: list[str] | None = None
    positions: list[int] = []
    for line, cells in _records(file, delimiter, strict=strict):
        place = f"{file}:{line}"
        if isinstance(cells, csv.Error):
            error = DataError(f"{place}: {cells}; correct the quotes of the line")
            if first is None:
                raise error
            yield error
            continue
        if first is None:
            first = cells
            positions = _positions(columns, len(cells), cells if header else [], place)
            if header:
                continue
        elif header and len(first) > 1 and cells == first:
            yield DataError(f"{place}: the header occurs again, as where files were joined; remove the line")
            continue
        if len(cells) == len(first):
            yield place, [cells[position] for position in positions]
        else:
            yield DataError(
                f"{place}: number of columns: {len(cells)}, expected {len(first)} as in the first line; "
                f"correct the line, or the delimiter {delimiter!r}"
            )


def _positions(columns: Sequence[TableColumn], count: int, names: Sequence[str], place: str) -> list[int]:
    try:
        return [find_column(column, count, names) for column in columns]
    except DataError as error:
        raise DataError(f"{place}: {error}") from None


def _records(file: Path, delimiter: str, *, strict: bool) -> Iterator[tuple[int, list[str] | csv.Error]]:
    """Yields each record's first line and its cells, or the error of parsing them."""
    lines = read_lines(file, strict=strict)
    if delimiter == "\t":  # without quotes a line is a record
        for number, line in enumerate(lines, start=1):
            text = line.rstrip("\r")
            yield number, text.split("\t") if text else []
        return
    csv.field_size_limit(LONGEST_CELL)
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, strict=True)
    while True:
        first = reader.line_num + 1
        try:
            yield first, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield first, error


def _json_lines(
    file: Path, columns: Sequence[TableColumn], strict: bool
) -> Iterator[tuple[str, list[Any]] | DataError]:
    for line, text in enumerate(read_lines(file, strict=strict), start=1):
        place = f"{file}:{line}"
        try:
            cells = json.loads(text, object_pairs_hook=_object)
            if not isinstance(cells, dict):
                raise DataError(f"expected a JSON object, found {text[:40]!r}; name the columns")
            names = list(cells)
            yield place, [cells[names[find_column(column, 0, names)]] for column in columns]
        except DataError as error:
            yield DataError(f"{place}: {error}")
        except (ValueError, RecursionError) as error:
            yield DataError(f"{place}: not JSON: {error}; each line must be one object")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns a JSON object, unless a key occurs twice: `json` would take the last value."""
    result = dict(pairs)
    if len(result) < len(pairs):
        (key, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise DataError(f"the key {key!r} occurs twice in an object; leave one out")
    return result


def _parquet(file: Path, columns: Sequence[TableColumn]) -> Iterator[tuple[str, list[Any]] | DataError]:
    with _opened(file) as table:
        names = table.schema_arrow.names
        positions = _positions(columns, len(names), names, str(file))
        number = 0
        for batch in table.iter_batches(1000):
            for cells in zip(*(batch.column(position).to_pylist() for position in positions), strict=True):
                number += 1
                yield f"{file}, row {number}", list(cells)


@contextmanager
def _opened(file: Path) -> "Iterator[ParquetFile]":
    """Opens a Parquet file.

    Raises:
        DataError: It is not a Parquet file, or is damaged.
    """
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    check_file(file)
    try:
        with open_bytes(file) as stream:
            yield ParquetFile(stream)
    except (ArrowException, OSError, EOFError, OverflowError, ValueError, zlib.error) as error:
        raise DataError(f"{file}: not a readable Parquet file: {error}; write it again") from error
