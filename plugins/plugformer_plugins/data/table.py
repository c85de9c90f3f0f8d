"""Tables: separated text, JSON lines, Parquet."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from plugformer.data import check_file
from plugformer.errors import ConfigurationError, DataError, PlugformerError, nearest
from plugformer.interfaces import Column, Data
from plugformer_plugins.data.examples import (
    BadRows,
    LoadedRow,
    Policy,
    build,
    cell,
    label_column,
    needed,
    require_aligned,
    require_text,
)
from plugformer_plugins.data.labels import warn_of_numbers
from plugformer_plugins.data.splits import Keys, OneOrMore, SplitName, one_or_more, placed
from plugformer_plugins.data.streams import stream
from plugformer_plugins.data.table_reader import TableColumn, find_column, read_header, read_table

if TYPE_CHECKING:
    from datasets import DatasetDict, IterableDatasetDict

Name = str | Annotated[int, Field(ge=1)]


class TabularData(Data):
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
        columns: dict[str, OneOrMore[Name]] | None = None,
        separator: Annotated[str, Field(min_length=1)] = " ",
        header: bool = True,
        labels: list[str] | None = None,
        zero_based: bool | None = None,
        delimiter: str | None = None,
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
        self._notices: list[str] = []
        if delimiter is not None and len(delimiter) != 1:
            raise ConfigurationError(
                f"data 'table': delimiter: {delimiter!r} is not one character; write one"
            )
        if labels is not None and len(set(labels)) < len(labels):
            raise ConfigurationError(
                f"data 'table': labels: {labels} repeats a name; each class needs its own"
            )

    def load(self, columns: Sequence[Column]) -> "DatasetDict":
        """Returns the splits that `files` names.

        Raises:
            ConfigurationError: `columns` does not name the task's columns, or a file's format is unknown.
            DataError: A file or a row is malformed; the message names file and line.
        """
        columns = needed(columns)
        wanted, bad_rows = self._wanted(columns), BadRows(self._bad_rows)
        splits = {
            split: chain.from_iterable(self._read(file, columns, wanted) for file in one_or_more(files))
            for split, files in self._files.items()
        }
        examples = build(splits, columns, bad_rows, self._labels, zero_based=self._zero_based)
        self._notices = bad_rows.notices()
        if (label := label_column(columns)) is not None and "train" in examples:
            self._notices += warn_of_numbers(examples, wanted[label.name][0])
        return examples

    def problems(self, columns: Sequence[Column]) -> Iterator[tuple[Keys, str]]:
        """Yields missing files, and columns that the task or a file does not have."""
        columns = needed(columns)
        wrong = list(self._wrong_columns(columns))
        yield from wrong
        wanted = {} if wrong else self._wanted(columns)
        for path, file in placed(self._files):
            try:
                header = read_header(file, delimiter=self._delimiter, header=self._header)
            except PlugformerError as error:
                yield path, str(error)
                continue
            if header is None:
                continue
            for name, places in wanted.items():
                for place in places:
                    try:
                        find_column(place, *header)
                    except DataError as error:
                        yield ("columns", name), f"{file}: {error}"

    def stream(self, columns: Sequence[Column]) -> "IterableDatasetDict":
        """Returns the splits unread; each file is a shard.

        Raises:
            ConfigurationError: As for `load`, or `labels` are not given.
            DataError: A file is missing or empty.
        """
        columns = needed(columns)
        wanted = self._wanted(columns)
        files = {split: one_or_more(each) for split, each in self._files.items()}
        for file in chain.from_iterable(files.values()):
            check_file(file)
        read = partial(self._read, columns=columns, wanted=wanted)
        return stream(files, read, columns, self._bad_rows, self._labels, zero_based=self._zero_based)

    def notices(self) -> list[str]:
        """Returns the number of skipped rows and the first errors."""
        return self._notices

    def _read(
        self, file: Path, columns: Sequence[Column], wanted: dict[str, list[TableColumn]]
    ) -> Iterator[LoadedRow | DataError]:
        rows = read_table(
            file,
            [place for column in columns for place in wanted[column.name]],
            delimiter=self._delimiter,
            header=self._header,
            strict=self._bad_rows == "refuse",
        )
        counts = [len(wanted[column.name]) for column in columns]
        for row in rows:
            if isinstance(row, DataError):
                yield row
                continue
            place, cells = row
            remaining = iter(cells)
            try:
                values = tuple(
                    self._value(list(islice(remaining, count)), column, place)
                    for count, column in zip(counts, columns, strict=True)
                )
                require_aligned(values, columns, place)
                yield LoadedRow(values, place)
            except DataError as error:
                yield error

    def _wanted(self, columns: Sequence[Column]) -> dict[str, list[TableColumn]]:
        """Returns the table's columns for each column of the task, in the task's order."""
        names = [column.name for column in columns]
        if self._columns is None:
            defaults: Sequence[TableColumn] = names if self._header else range(1, len(names) + 1)
            return {name: [column] for name, column in zip(names, defaults, strict=True)}
        for _, message in self._wrong_columns(columns):
            raise ConfigurationError(f"data 'table': columns: {message}")
        return {name: one_or_more(self._columns[name]) for name in names}

    def _wrong_columns(self, columns: Sequence[Column]) -> Iterator[tuple[Keys, str]]:
        """Yields problems of the keys of `columns`."""
        if self._columns is None:
            return
        names = [column.name for column in columns]
        known = f"the task has {names}"
        for name in self._columns:
            if name not in names:
                yield ("columns", name), f"unknown key {name!r}{nearest(name, names)}; {known}"
        for name in names:
            if name not in self._columns:
                message = f"{name!r} is missing; {known}: name a column of the table for each"
                yield ("columns",), message

    def _value(self, cells: list[Any], column: Column, place: str) -> Any:
        """Returns a row's value for a column; the texts of several cells are joined."""
        if len(cells) == 1:
            (single,) = cells
            is_number = column.holds == "label" and type(single) is int  # in JSON and Parquet
            return cell(str(single) if is_number else single, column, place)
        parts = [
            ""
            if part is None or (isinstance(part, str) and not part.strip())  # one of several may be empty
            else require_text(part, column.name, place)
            for part in cells
        ]
        kept = parts if self._separator.strip() and any(parts) else [part for part in parts if part]
        return cell(self._separator.join(kept), column, place)
