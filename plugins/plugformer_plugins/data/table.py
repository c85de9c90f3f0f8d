"""Tables: separated text, JSON lines, Parquet."""

from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from plugformer.data.text_file import check_file
from plugformer.errors import ConfigurationError, DataError, PlugformerError, nearest
from plugformer.interfaces import Data, TaskType
from plugformer_plugins.data.bad_rows import BadRows, Policy
from plugformer_plugins.data.examples import Example, build, require_text
from plugformer_plugins.data.labels import warn_of_numbers
from plugformer_plugins.data.splits import Keys, OneOrMore, SplitName, one_or_more, placed
from plugformer_plugins.data.streams import stream
from plugformer_plugins.data.table_reader import Column, Layout, Row, read_layout, read_rows

if TYPE_CHECKING:
    from datasets import DatasetDict, IterableDatasetDict

Name = str | Annotated[int, Field(ge=1)]
Finding = tuple[Keys, str]
"""The keys that lead to an option, and what is wrong with it."""


class Table(Data):
    """Rows of files with columns: .csv, .tsv, .jsonl, .parquet, each also with .gz.

    Args:
        files: For each split a file, or several that follow one another.
        columns: Which column is `source` and which `target`, or `text` and `label`: by name, or by number
            counted from 1; of a list the columns are joined. If None, the columns of those names, or the
            first and the second where columns have no names.
        separator: Between the texts of joined columns. A space leaves no trace of where one ends, and texts
            that are empty out; with anything else, such as " [SEP] ", every column has its place.
        header: Whether the first line of separated text names the columns.
        labels: Names of the classes in order. Files hold the names, or numbers that count from 1, or from 0
            if 0 occurs; names only where data are streamed. If None, the labels of the training examples.
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
        delimiter: str | None = None,
        bad_rows: Policy = "refuse",
    ) -> None:
        self._files = files
        self._columns = columns
        self._separator = separator
        self._header = header
        self._labels = labels
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

    def load(self, task_type: TaskType) -> "DatasetDict":
        """Returns the splits that `files` names.

        Raises:
            ConfigurationError: `columns` does not name the task's columns, or a file's format is unknown.
            DataError: A file or a row is malformed; the message names file and line.
        """
        columns, bad_rows = self._wanted(task_type), BadRows(self._bad_rows)
        splits = {
            split: chain.from_iterable(self._read(file, columns) for file in one_or_more(files))
            for split, files in self._files.items()
        }
        examples = build(splits, task_type, bad_rows, self._labels)
        self._notices = bad_rows.notices()
        if task_type is TaskType.CLASSIFICATION and "train" in examples:
            self._notices += warn_of_numbers(examples, columns["label"][0])
        return examples

    def problems(self, task_type: TaskType) -> Iterator[Finding]:
        """Yields files that are not there, and columns that are not the task's or that files do not have."""
        wrong = list(self._wrong_columns(task_type))
        yield from wrong
        wanted = {} if wrong else self._wanted(task_type)
        for path, file in placed(self._files):
            try:
                layout = read_layout(file, delimiter=self._delimiter, header=self._header)
            except PlugformerError as error:
                yield path, str(error)
                continue
            if layout is not None:
                for name, columns in wanted.items():
                    for fault in _missing(layout, columns):
                        yield ("columns", name), f"{file}: {fault}"

    def stream(self, task_type: TaskType) -> "IterableDatasetDict":
        """Returns the splits unread; each file is a shard.

        Raises:
            ConfigurationError: As for `load`, or `labels` are not given.
            DataError: A file is missing or empty.
        """
        columns = self._wanted(task_type)
        files = {split: one_or_more(each) for split, each in self._files.items()}
        for file in chain.from_iterable(files.values()):
            check_file(file)
        read = partial(self._read, columns=columns)
        return stream(files, read, task_type, self._bad_rows, self._labels)

    def notices(self) -> list[str]:
        """Returns how many bad rows were skipped, and the first of them."""
        return self._notices

    def _read(self, file: Path, columns: dict[str, list[Column]]) -> Iterator[Example | DataError]:
        (first, inputs), (second, outputs) = columns.items()
        strict = self._bad_rows == "refuse"
        rows = read_rows(
            file,
            columns=[*inputs, *outputs],
            delimiter=self._delimiter,
            header=self._header,
            strict=strict,
        )
        for row in rows:
            if isinstance(row, DataError):
                yield row
                continue
            try:
                text = self._text(row, inputs, first)
                yield Example(text, self._text(row, outputs, second), row.place)
            except DataError as fault:
                yield fault

    def _wanted(self, task_type: TaskType) -> dict[str, list[Column]]:
        """Returns the table's columns for each column of the task, in the task's order."""
        if self._columns is None:
            defaults: tuple[Column, Column] = task_type.columns if self._header else (1, 2)
            return {name: [column] for name, column in zip(task_type.columns, defaults, strict=True)}
        for _, message in self._wrong_columns(task_type):
            raise ConfigurationError(f"data 'table': columns: {message}")
        return {name: one_or_more(self._columns[name]) for name in task_type.columns}

    def _wrong_columns(self, task_type: TaskType) -> Iterator[Finding]:
        """Yields what is wrong with the keys of `columns`."""
        if self._columns is None:
            return
        known = f"a {task_type} task has {list(task_type.columns)}"
        for name in self._columns:
            if name not in task_type.columns:
                message = f"unknown key {name!r}{nearest(name, task_type.columns)}; {known}"
                yield ("columns", name), message
        for name in task_type.columns:
            if name not in self._columns:
                message = f"{name!r} is missing; {known}: say which columns of the table they are"
                yield ("columns",), message

    def _text(self, row: Row, columns: list[Column], name: str) -> str:
        """Returns the text of a column, or of several joined."""
        cells = [row.cell(column) for column in columns]
        if name == "label" and len(cells) == 1 and type(cells[0]) is int:  # JSON and Parquet have numbers
            return str(cells[0])
        if len(cells) > 1:  # one of several may be empty
            parts = [cell if isinstance(cell, str) and cell.strip() else "" for cell in cells]
            kept = parts if self._separator.strip() and any(parts) else [part for part in parts if part]
            cells = [self._separator.join(kept)]
        return require_text(cells[0], name, row.place)


def _missing(layout: Layout, columns: list[Column]) -> Iterator[DataError]:
    """Yields why columns are none of a table's."""
    for column in columns:
        try:
            layout.position(column)
        except DataError as error:
            yield error
