"""Tables: separated text, JSON lines, Parquet."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from plugformer.data import check_file
from plugformer.errors import ConfigurationError, DataError, PlugformerError, nearest
from plugformer.interfaces import Column, Data
from plugformer_plugins.data.bad_rows import BadRows, Policy
from plugformer_plugins.data.examples import (
    Example,
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
from plugformer_plugins.data.table_reader import Column as Place
from plugformer_plugins.data.table_reader import Layout, Row, read_layout, read_rows

if TYPE_CHECKING:
    from datasets import DatasetDict, IterableDatasetDict

Name = str | Annotated[int, Field(ge=1)]
Finding = tuple[Keys, str]
"""The keys that lead to an option, and what is wrong with it."""


class Table(Data):
    """Rows of files with columns: .csv, .tsv, .jsonl, .parquet, each also with .gz.

    Args:
        files: For each split a file, or several that follow one another.
        columns: Which column is which of the task's, such as `source` and `target`: by name, or by number
            counted from 1; of a list the columns are joined. If None, the columns of those names, or the
            first ones where columns have no names.
        separator: Between the texts of joined columns. A space leaves no trace of where one ends, and texts
            that are empty out; with anything else, such as " [SEP] ", every column has its place.
        header: Whether the first line of separated text names the columns.
        labels: Names of the classes in order. Files hold the names, or their numbers. If None, the labels of
            the training examples.
        zero_based: Whether labels that are numbers count from 0 or from 1. If None, from 0 if 0 occurs, from
            1 if the number of classes does; else they are refused, as all are where data are streamed.
        delimiter: Between columns of separated text: a comma for .csv, a tab for .tsv, .tab and .txt. With
            a tab, double quotes have no meaning.
        bad_rows: Whether a malformed row (not as many columns as others, an empty cell, a label that is no
            class, bytes that are not UTF-8, no JSON) stops the reading, or is skipped, counted and reported.
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

    def problems(self, columns: Sequence[Column]) -> Iterator[Finding]:
        """Yields files that are not there, and columns that are not the task's or that files do not have."""
        columns = needed(columns)
        wrong = list(self._wrong_columns(columns))
        yield from wrong
        wanted = {} if wrong else self._wanted(columns)
        for path, file in placed(self._files):
            try:
                layout = read_layout(file, delimiter=self._delimiter, header=self._header)
            except PlugformerError as error:
                yield path, str(error)
                continue
            if layout is not None:
                for name, places in wanted.items():
                    for fault in _missing(layout, places):
                        yield ("columns", name), f"{file}: {fault}"

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
        """Returns the number of bad rows that were skipped, and the first of them."""
        return self._notices

    def _read(
        self, file: Path, columns: Sequence[Column], wanted: dict[str, list[Place]]
    ) -> Iterator[Example | DataError]:
        strict = self._bad_rows == "refuse"
        rows = read_rows(
            file,
            columns=[place for places in wanted.values() for place in places],
            delimiter=self._delimiter,
            header=self._header,
            strict=strict,
        )
        for row in rows:
            if isinstance(row, DataError):
                yield row
                continue
            try:
                values = tuple(self._cell(row, wanted[column.name], column) for column in columns)
                require_aligned(values, columns, row.place)
                yield Example(values, row.place)
            except DataError as fault:
                yield fault

    def _wanted(self, columns: Sequence[Column]) -> dict[str, list[Place]]:
        """Returns the table's columns for each column of the task, in the task's order."""
        names = [column.name for column in columns]
        if self._columns is None:
            defaults: Sequence[Place] = names if self._header else range(1, len(names) + 1)
            return {name: [column] for name, column in zip(names, defaults, strict=True)}
        for _, message in self._wrong_columns(columns):
            raise ConfigurationError(f"data 'table': columns: {message}")
        return {name: one_or_more(self._columns[name]) for name in names}

    def _wrong_columns(self, columns: Sequence[Column]) -> Iterator[Finding]:
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
                message = f"{name!r} is missing; {known}: say which columns of the table they are"
                yield ("columns",), message

    def _cell(self, row: Row, places: list[Place], column: Column) -> Any:
        """Returns a row's value for a column; the texts of several cells are joined."""
        cells = [row.cell(place) for place in places]
        if (
            column.holds == "label" and len(cells) == 1 and type(cells[0]) is int
        ):  # JSON and Parquet have numbers
            return str(cells[0])
        if len(cells) > 1:  # one of several may be empty
            parts = [_part(each, column, row.place) for each in cells]
            kept = parts if self._separator.strip() and any(parts) else [part for part in parts if part]
            cells = [self._separator.join(kept)]
        return cell(cells[0], column, row.place)


def _part(found: Any, column: Column, place: str) -> str:
    """Returns a cell of several that are joined; nothing where it is blank or absent.

    Raises:
        DataError: It holds something else than text.
    """
    blank = found is None or (isinstance(found, str) and not found.strip())
    return "" if blank else require_text(found, column.name, place)


def _missing(layout: Layout, places: list[Place]) -> Iterator[DataError]:
    """Yields an error for each column that a table lacks."""
    for place in places:
        try:
            layout.position(place)
        except DataError as error:
            yield error
