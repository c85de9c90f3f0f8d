"""Cells of tables: comma- or tab-separated text, JSON lines, Parquet, each plain or gzipped."""

import csv
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from plugformer.errors import ConfigurationError, DataError, nearest
from plugformer_blocks.files import check_file, open_bytes, read_lines

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


def table_cells(
    file: Path, find: Find, *, header: bool = True, delimiter: str | None = None, strict: bool = True
) -> Rows:
    """Yields the cells of a file whose name ends in .csv, .tsv, .jsonl or .parquet, perhaps with .gz.

    Args:
        file: The file. It is read in portions.
        find: Receives the names of the columns, none without a header, and their number; of JSON lines for
            each row, and 0. It returns the positions of the cells to yield.
        header: Whether the first line of separated text names the columns.
        delimiter: Between columns of separated text; chosen by the ending if None.
        strict: Whether bytes that are not UTF-8 end the reading; otherwise they become lone surrogates.

    Raises:
        ConfigurationError: What `find` raises; of JSON lines it is the error of a row.
        DataError: The format is unknown, or the file cannot be read to its end.
    """
    suffix = Path(file.stem).suffix if file.suffix == ".gz" else file.suffix
    if suffix in _JSON:
        return _json_lines(file, find, strict)
    if suffix == ".parquet":
        return _parquet(file, find)
    delimiter = delimiter or _DELIMITERS.get(suffix)
    if delimiter is None:
        known = ", ".join([*_DELIMITERS, *_JSON, ".parquet"])
        raise DataError(
            f"data 'table': cannot tell the format of {file}; expected one of {known}, each also with "
            ".gz; rename it, or set delimiter"
        )
    return _separated(file, find, delimiter, header=header, strict=strict)


CORRECT = "correct data.columns, or data.header if the first line is no header"


def find_column(column: TableColumn, names: Sequence[str], count: int, hint: str = CORRECT) -> int:
    """Returns the position, from 0, of one of `count` columns, which may have no names.

    A text is a number where no column has that name; an integer is a name where there is no such number. The
    hint is what an error says to do.

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
    elif len(names) == 1 and (sign := next((sign for sign in ";\t|" if sign in names[0]), "")):
        hint = f"{sign!r} seems to separate the columns: convert the file, or in a task set data.delimiter"
    raise ConfigurationError(f"{problem}; expected one of {known}, or a number; {hint}")


def _separated(file: Path, find: Find, delimiter: str, *, header: bool, strict: bool) -> Rows:
    csv.field_size_limit(LONGEST_CELL)
    quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    lines, number, taken = iter(read_lines(file, strict=strict)), 1, []

    def following() -> Iterator[str]:
        for line in lines:
            taken.append(line)
            yield f"{line}\n"

    reader = csv.reader(following(), delimiter=delimiter, strict=True, quoting=quoting)
    width, positions = 0, None
    while True:
        number += len(taken)
        taken.clear()
        place = f"{file}:{number}"
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            malformed = DataError(f"{place}: {error}; correct the line")
            if positions is None:
                raise malformed from error
            yield malformed
            lines = chain(taken[1:], lines)  # what follows a stray quote is read again
            del taken[1:]
            reader = csv.reader(following(), delimiter=delimiter, strict=True, quoting=quoting)
            continue
        if positions is None:
            width = len(cells)
            names = cells if header else []
            try:
                "".join(names).encode()
                positions = find(names, width)
            except UnicodeEncodeError:
                advice = "convert the file, for example with iconv -t UTF-8"
                raise DataError(f"{place}: the names of the columns are not UTF-8; {advice}") from None
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
