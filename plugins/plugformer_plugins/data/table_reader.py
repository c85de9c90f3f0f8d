"""Reading the rows of tables: comma- or tab-separated text, JSON lines, Parquet, each plain or gzipped."""

import csv
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from plugformer.data.text_file import check_file, open_bytes, read_lines
from plugformer.errors import ConfigurationError, DataError

if TYPE_CHECKING:
    from pyarrow import RecordBatch


class Row(NamedTuple):
    """One row: its cells by column, and the file and line where it stands."""

    cells: dict[str, Any]
    place: str


_DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": "\t"}


def read_rows(
    file: Path, *, delimiter: str | None, header: bool, strict: bool = True
) -> Iterator[Row | DataError]:
    """Yields a table's rows, read as its name's suffix says; of a malformed row what is wrong with it.

    Columns are called by their names where the table has names, and by their numbers, "1" for the first.

    Args:
        file: Its suffix, before .gz, is .csv, .tsv, .tab, .txt, .jsonl, .ndjson, .json or .parquet.
        delimiter: Between columns; that of the suffix if None. Double quotes group cells unless it is a tab.
        header: Whether the first line of separated text names the columns.
        strict: Whether bytes that are not UTF-8 stop the reading; else they become lone surrogates.

    Raises:
        ConfigurationError: The suffix is none of these and no delimiter is given.
        DataError: The file cannot be read to its end.
    """
    suffix = Path(file.stem).suffix if file.suffix == ".gz" else file.suffix
    if suffix in (".jsonl", ".ndjson", ".json"):
        return _json_lines(file, strict)
    if suffix == ".parquet":
        return _parquet(file)
    separator = delimiter or _DELIMITERS.get(suffix)
    if separator is None:
        known = sorted([*_DELIMITERS, ".json", ".jsonl", ".ndjson", ".parquet"])
        raise ConfigurationError(
            f"data 'table': cannot tell the format of {file} from {suffix!r}; expected one of {known}, "
            "each also with .gz; rename it, or set delimiter"
        )
    return _separated(read_lines(file, strict=strict), file, separator, header)


def _separated(lines: Iterator[str], file: Path, delimiter: str, header: bool) -> Iterator[Row | DataError]:
    reader = csv.reader(
        (f"{line}\n" for line in lines),
        delimiter=delimiter,
        quoting=csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL,
        strict=True,
    )
    names: list[str] = []
    columns = 0
    line = 1
    try:
        for cells in reader:
            columns = columns or len(cells)
            if len(cells) != columns:
                yield DataError(
                    f"{file}:{line}: {_columns(len(cells))}, expected {columns} as in the first line; "
                    f"correct the line, or the delimiter {delimiter!r}"
                )
            elif header and line == 1:
                names = cells
            else:
                yield Row(_numbered(cells) | dict(zip(names, cells, strict=False)), f"{file}:{line}")
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{file}:{line}: {error}; correct the quotes of the line") from error


def _json_lines(file: Path, strict: bool) -> Iterator[Row | DataError]:
    for line, text in enumerate(read_lines(file, strict=strict), start=1):
        try:
            cells = json.loads(text)
        except (ValueError, RecursionError) as error:
            yield DataError(f"{file}:{line}: not JSON: {error}; each line must be one object")
            continue
        if isinstance(cells, dict):
            yield Row(cells, f"{file}:{line}")
        else:
            yield DataError(f"{file}:{line}: expected a JSON object, found {text[:40]!r}; name the columns")


def _parquet(file: Path) -> Iterator[Row | DataError]:
    import pyarrow.parquet
    from pyarrow import ArrowException

    check_file(file)
    try:
        with open_bytes(file) as stream:
            batches = pyarrow.parquet.ParquetFile(stream).iter_batches(1000)
            rows = (cells for batch in batches for cells in _cells(batch))
            for number, cells in enumerate(rows, start=1):
                place = f"{file}, row {number}"
                if isinstance(cells, UnicodeDecodeError):
                    yield DataError(f"{place}: a text is not UTF-8: {cells}; write the file again")
                else:
                    yield Row(_numbered(list(cells.values())) | cells, place)
    except (ArrowException, OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise DataError(f"{file}: not a readable Parquet file: {error}; write it again") from error


def _cells(batch: "RecordBatch") -> Iterator[dict[str, Any] | UnicodeDecodeError]:
    """Yields the rows of a batch; of one that cannot be decoded, the reason."""
    try:
        yield from batch.to_pylist()
    except UnicodeDecodeError as error:
        if batch.num_rows == 1:
            yield error
            return
        for number in range(batch.num_rows):
            yield from _cells(batch.slice(number, 1))


def _numbered(cells: list[Any]) -> dict[str, Any]:
    return {str(number): cell for number, cell in enumerate(cells, start=1)}


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"
