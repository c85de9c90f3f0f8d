"""From rows of values, each with a place, to the splits that a task reads."""

import math
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from plugformer.data import SplitStats
from plugformer.errors import ConfigurationError, DataError, nearest
from plugformer.interfaces import Column, Data
from plugformer_plugins.data.labels import (
    class_names,
    class_numbers,
    first_number,
    require_different,
    warn_of_numbers,
)

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict, Features, IterableDatasetDict

Policy = Literal["refuse", "skip"]
"""Stop at the first bad row, or skip and count bad rows."""


class LoadedRow(NamedTuple):
    """A row: its value in each column that the task needs, and its file and line."""

    values: tuple[Any, ...]
    place: str


class RowData(Data):
    """Data that are read row by row; a subclass says from where, and reads."""

    _bad_rows: Policy = "refuse"
    _labels: Sequence[str] | None = None
    _zero_based: bool | None = None
    _notices: Sequence[str] = ()

    @abstractmethod
    def sources(self) -> Mapping[str, Sequence[Any]]:
        """Returns what each split is read from, such as files: the shards of a stream."""

    @abstractmethod
    def read(self, source: Any, columns: Sequence[Column]) -> Iterator[LoadedRow | DataError]:
        """Yields the rows of a source, or what is wrong with them.

        Args:
            source: One of `sources`.
            columns: Those of the task that are not optional, in the order of a row's values.

        Raises:
            ConfigurationError: A column is not there.
            DataError: The source cannot be read to its end.
        """

    def load(self, columns: Sequence[Column]) -> "DatasetDict":
        """Returns the splits as memory-mapped data sets; a label is a `ClassLabel`.

        Raises:
            ConfigurationError: The task asks for columns that are not there.
            DataError: A source cannot be read, a row is bad and bad rows are refused, or all rows are bad.
        """
        from datasets import DatasetDict, Features, Value

        from plugformer.data import on_disk

        self.check_columns(columns)
        columns = needed(columns)
        types = features_of(columns)
        # Errors of encoding come later and need the place; a text that is only tokenized has none.
        if any(column.holds != "text" or column.tokenizer is None for column in columns):
            types["place"] = Value("string")
        stats: dict[str, SplitStats] = defaultdict(SplitStats)
        examples = DatasetDict()
        for split, sources in self.sources().items():
            rows = chain.from_iterable(self.read(source, columns) for source in sources)
            values = (
                (*row.values, row.place)[: len(types)] for row in self._sound(split, rows, stats[split])
            )
            examples[split] = on_disk(values, Features(types))
        label = label_column(columns)
        if label is not None:
            examples = self._with_classes(examples, label, stats)
        self._notices = [notice for split, count in stats.items() for notice in count.notices(split)]
        if label is not None and "train" in examples:
            self._notices += warn_of_numbers(examples["train"], label.name)
        return examples

    def stream(self, columns: Sequence[Column]) -> "IterableDatasetDict":
        """Returns the splits unread; each source is a shard.

        Raises:
            ConfigurationError: As for `load`, or there are classes, and nobody has named them.
            DataError: A file is missing or empty.
        """
        from datasets import IterableDataset, IterableDatasetDict

        self.check_columns(columns)
        for _, message in self.problems(columns):
            raise DataError(message)
        columns = needed(columns)
        features = stream_features(columns, self._labels)
        return IterableDatasetDict(
            {
                split: IterableDataset.from_generator(
                    self._records,
                    features=features,
                    # `datasets` takes lists for shards.
                    gen_kwargs={"sources": list(sources), "columns": tuple(columns)},
                )
                for split, sources in self.sources().items()
            }
        )

    def notices(self) -> Sequence[str]:
        """Returns the number of skipped rows and the first errors."""
        return self._notices

    def class_names(self, label: Column) -> Sequence[str] | None:
        """Returns the names of the classes; None if they are those of the training examples."""
        return self._labels

    def record(
        self, row: LoadedRow | DataError, columns: Sequence[Column], classes: Mapping[str, int]
    ) -> dict[str, Any]:
        """Returns a row of a stream, with the number of its class, or with what is wrong with it."""
        if isinstance(row, LoadedRow):
            values = {column.name: value for column, value in zip(columns, row.values, strict=True)}
            label = label_column(columns)
            if label is None or values[label.name] in classes:
                named = {} if label is None else {label.name: classes[values[label.name]]}
                return {**values, **named, "place": row.place, "fault": None}
            row = _unknown_label(values[label.name], row.place, classes)
        if self._bad_rows == "refuse":
            raise row
        empty = {"text": "", "label": 0, "number": 0.0}
        return {column.name: empty.get(column.holds, []) for column in columns} | {
            "place": "",
            "fault": str(row),
        }

    def _records(self, sources: Sequence[Any], columns: Sequence[Column]) -> Iterator[dict[str, Any]]:
        names, zero_based = self._labels or (), self._zero_based
        first = None if zero_based is None else first_number(names, (), zero_based=zero_based)
        classes = class_numbers(names, first)
        for source in sources:
            for row in self.read(source, columns):
                yield self.record(row, columns, classes)

    def _sound(
        self, split: str, rows: Iterable[LoadedRow | DataError], stats: SplitStats
    ) -> Iterator[LoadedRow]:
        """Yields the usable rows of a split."""
        for row in rows:
            stats.rows += 1
            if isinstance(row, DataError):
                self._reject(row, stats)
            else:
                yield row
        if stats.bad and stats.bad == stats.rows:
            raise DataError(f"{split}: every row is bad; the first:\n  {stats.faults[0]}")

    def _reject(self, error: DataError, stats: SplitStats, rows: int = 1) -> None:
        if self._bad_rows == "refuse":
            raise error
        stats.leave_out(str(error), rows)

    def _with_classes(
        self, examples: "DatasetDict", label: Column, stats: Mapping[str, SplitStats]
    ) -> "DatasetDict":
        """Replaces labels by classes, after all splits are read."""
        from datasets import DatasetDict

        written = {split: data.unique(label.name) for split, data in examples.items()}
        declared = self.class_names(label)
        train = written.get("train", ())
        if declared is None:
            require_different(train, "labels")
        names = class_names(train) if declared is None else list(declared)
        first = first_number(names, {*chain.from_iterable(written.values())}, zero_based=self._zero_based)
        numbers = class_numbers(names, first)
        for split, data in examples.items():
            for unknown in (name for name in written[split] if name not in numbers):
                rows = [row for row, name in enumerate(data[label.name]) if name == unknown]
                place = data[rows[0]]["place"]
                self._reject(_unknown_label(unknown, place, numbers), stats[split], len(rows))
        return DatasetDict(
            {split: _classified(data, label.name, numbers, names) for split, data in examples.items()}
        )


def _classified(data: "Dataset", label: str, numbers: Mapping[str, int], names: list[str]) -> "Dataset":
    """Returns the examples whose label is known, with classes for labels."""
    from datasets import ClassLabel, Dataset, Features, concatenate_datasets

    classes = np.array([numbers.get(name, -1) for name in data[label]], dtype=np.int64)
    features = Features({label: ClassLabel(names=names)})
    labels = Dataset.from_dict({label: classes.clip(min=0)}, features=features)
    data = concatenate_datasets([data.remove_columns([label, "place"]), labels], axis=1)
    return data if (classes >= 0).all() else data.select((classes >= 0).nonzero()[0])


def _unknown_label(label: str, place: str, known: Iterable[str]) -> DataError:
    return DataError(
        f"{place}: unknown label {label!r}{nearest(label, known)}; expected one of {list(known)}; correct "
        "it, or complete data.labels (numbers may need data.zero_based)"
    )


def needed(columns: Sequence[Column]) -> list[Column]:
    """Returns the columns that examples must have."""
    return [column for column in columns if not column.optional]


def label_column(columns: Sequence[Column]) -> Column | None:
    """Returns the column with the labels, if there is one."""
    return next((column for column in columns if column.holds == "label"), None)


def features_of(columns: Sequence[Column]) -> dict[str, Any]:
    """Returns the types of columns; labels are texts."""
    from datasets import List, Value

    text = Value("string")
    types = {"text": text, "label": text, "number": Value("float64")}
    return {column.name: types.get(column.holds, List(text)) for column in columns}


def stream_features(columns: Sequence[Column], labels: Sequence[str] | None) -> "Features":
    """Returns the types of the columns of a stream, with those for places and faults.

    Raises:
        ConfigurationError: There are classes, and their names are not known.
    """
    from datasets import ClassLabel, Features, Value

    types = features_of(columns)
    if (label := label_column(columns)) is not None:
        if not labels:
            raise ConfigurationError(
                "data.streaming: the classes are not known before all examples are read; name them in "
                "data.labels of data 'table', or leave out data.streaming"
            )
        types[label.name] = ClassLabel(names=list(labels))
    return Features({**types, "place": Value("string"), "fault": Value("string")})


def loaded_row(cells: Sequence[Any], columns: Sequence[Column], place: str) -> LoadedRow:
    """Returns a row whose cells are converted to the types of their columns.

    Lists may be written as text, with their parts between spaces; numbers may be written as text.

    Raises:
        DataError: A cell is not what its column holds, or there is not one tag for each word.
    """
    values = tuple(_converted(cell, column, place) for cell, column in zip(cells, columns, strict=True))
    by_name = dict(zip((column.name for column in columns), values, strict=True))
    for column in columns:
        if column.along is not None and len(by_name[column.name]) != len(by_name[column.along]):
            raise DataError(
                f"{place}: {len(by_name[column.along])} {column.along} and {len(by_name[column.name])} "
                f"{column.name}; expected one of the {column.name} for each of the {column.along}"
            )
    return LoadedRow(values, place)


def _converted(value: Any, column: Column, place: str) -> Any:
    if column.holds in ("text", "label"):
        return require_text(value, column.name, place)
    if column.holds == "number":
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise DataError(
                f"{place}: the {column.name} is {value!r}, expected a number; correct it or remove the row"
            )
        return number
    parts = value.split() if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or (not parts and column.holds != "labels"):
        raise DataError(f"{place}: the {column.name} are {value!r}, expected text or a list; correct them")
    return [require_text(part, column.name, place) for part in parts]


def require_text(text: object, column: str, place: str) -> str:
    """Returns a cell that holds text, or an integer as text.

    Raises:
        DataError: It is empty, blank or something else.
    """
    if type(text) is int:
        return str(text)
    if not isinstance(text, str):
        raise DataError(f"{place}: the {column} is {text!r}, expected text; write it in quotes")
    if not text.strip():
        raise DataError(f"{place}: the {column} is empty, expected text; fill it in or remove the row")
    try:
        text.encode()
    except UnicodeEncodeError:  # from JSON escapes, or from bytes that are not UTF-8
        raise DataError(f"{place}: the {column} is not UTF-8: {text!r}; correct it") from None
    return text
