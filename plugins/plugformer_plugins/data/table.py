"""Tables: comma- or tab-separated text, JSON lines, Parquet, each plain or gzipped."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from plugformer.errors import ConfigurationError, DataError, nearest
from plugformer.interfaces import Column
from plugformer_blocks import TableColumn, find_column, table_cells
from plugformer_plugins.column.texts import read_text
from plugformer_plugins.data.files import FileData, Keys, OneOrMore, SplitName, one_or_more
from plugformer_plugins.data.rows import LoadedRow, Policy, loaded_row


class TabularData(FileData):
    """Rows of comma- or tab-separated text, JSON lines or Parquet, plain or gzipped.

    Rows of files with columns: .csv, .tsv, .jsonl, .parquet, each also with .gz.
    See https://huggingface.co/docs/datasets/tabular_load.

    Args:
        files: For each split a file, or several that are concatenated.
        columns: For each column of the task, such as `source` and `target`, the column of the table: by name,
            or by number from 1; the columns of a list are joined. If None, the columns of the same names, or
            the first ones if columns have no names. Columns that are optional may be left out.
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
                first = next(self.read(file, self.present(columns, [file])), None)
                if isinstance(first, DataError) and self._bad_rows == "refuse":
                    yield keys, str(first)
            except ConfigurationError as error:
                yield ("columns",), str(error)
                return
            except DataError as error:
                yield keys, str(error)

    def names(self, source: Path) -> Sequence[str]:
        """Returns the names of a file's columns, unless the option `columns` says what is read."""
        found: list[str] = []

        def find(names: Sequence[str], _: int) -> list[int]:
            found.extend(names)
            return []

        if self._columns is None and self._header:
            next(table_cells(source, find, delimiter=self._delimiter, strict=False), None)
        return found

    def read(self, source: Path, columns: Sequence[Column]) -> Iterator[LoadedRow | DataError]:
        """Yields the rows of a file.

        Raises:
            ConfigurationError: A column is not there, or `columns` does not name the task's columns.
            DataError: The format is unknown, or the file cannot be read to its end.
        """
        wanted = self._wanted(columns)

        def find(names: Sequence[str], count: int) -> list[int]:
            return [find_column(place, names, count) for places in wanted for place in places]

        table = table_cells(
            source, find, header=self._header, delimiter=self._delimiter, strict=self._bad_rows == "refuse"
        )
        for row in table:
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

    def _wanted(self, columns: Sequence[Column]) -> list[list[TableColumn]]:
        """Returns the table's columns for each column of the task, in the task's order."""
        names = [column.name for column in columns]
        if self._columns is None:
            return [[name if self._header else number] for number, name in enumerate(names, start=1)]
        for name in [*self._columns, *names]:
            if name not in names or name not in self._columns:
                problem = f"{name!r} is missing"
                if name in self._columns:
                    problem = f"unknown key {name!r}{nearest(name, names)}"
                raise ConfigurationError(
                    f"data 'table': columns: {problem}; name a column of the table for each of {names}"
                )
        return [one_or_more(self._columns[name]) for name in names]

    def _joined(self, cells: list[Any], column: Column, place: str) -> Any:
        """Returns a cell, or the joined texts of several cells, some of which may be empty."""
        if len(cells) == 1:
            return cells[0]
        try:
            texts = ["" if cell is None or not str(cell).strip() else read_text(cell) for cell in cells]
        except ValueError as error:
            raise DataError(f"{place}: the {column.name} {error}") from error
        if any(texts) and self._separator.strip():
            return self._separator.join(texts)
        return self._separator.join(filter(None, texts))
