"""From rows of values, each with a place, to the splits that a task reads."""

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from plugformer.data import SplitStats, require_aligned
from plugformer.errors import ConfigurationError, DataError, nearest
from plugformer.interfaces import Column, Data
from plugformer_plugins.data.labels import class_names, class_numbers, first_number

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict, IterableDatasetDict

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
    _columns: Mapping[str, Any] | None = None

    @abstractmethod
    def sources(self) -> Mapping[str, Sequence[Any]]:
        """Returns what each split is read from, such as files: the shards of a stream."""

    @abstractmethod
    def read(self, source: Any, columns: Sequence[Column]) -> Iterator[LoadedRow | DataError]:
        """Yields the rows of a source, or what is wrong with them.

        Args:
            source: One of `sources`.
            columns: Those of the task that are to be read, in the order of a row's values.

        Raises:
            ConfigurationError: A column is not there.
            DataError: The source cannot be read to its end.
        """

    def names(self, source: Any) -> Sequence[str]:
        """Returns the names of the columns of a source, where optional inputs of these names are read."""
        return ()

    def present(self, columns: Sequence[Column], sources: Sequence[Any]) -> list[Column]:
        """Returns the columns of a task that are read from the sources of a split.

        An optional one is read if the option `columns` has named it, or if it is an input that they have.
        """
        optional = any(column.optional and column.role == "input" for column in columns)
        names = self.names(sources[0]) if optional and sources else ()
        named = self._columns or {}
        return [
            column
            for column in columns
            if not column.optional
            or column.name in named
            or (column.role == "input" and column.name in names)
        ]

    def load(self, columns: Sequence[Column]) -> "DatasetDict":
        """Returns the splits as memory-mapped data sets; a label is a `ClassLabel`.

        Raises:
            ConfigurationError: The task asks for columns that are not there.
            DataError: A source cannot be read, a row is bad and bad rows are refused, or all rows are bad.
        """
        from datasets import DatasetDict, Features, Value

        from plugformer.data import on_disk

        self.check_columns(columns)
        stats: dict[str, SplitStats] = defaultdict(SplitStats)
        examples = DatasetDict()
        for split, sources in self.sources().items():
            present = self.present(columns, sources)
            types = features_of(present)
            # Errors of encoding come later and need the place; a text that is only tokenized has none.
            if any(column.holds != "text" or column.tokenizer is None for column in present):
                types["place"] = Value("string")
            rows = chain.from_iterable(self.read(source, present) for source in sources)
            values = (
                (*row.values, row.place)[: len(types)] for row in self._sound(split, rows, stats[split])
            )
            examples[split] = on_disk(values, Features(types))
        label = label_column(columns)
        if label is not None:
            examples = self._with_classes(examples, label, stats)
        self._notices = [notice for split, count in stats.items() for notice in count.notices(split)]
        return examples

    def stream(self, columns: Sequence[Column]) -> "IterableDatasetDict":
        """Returns the splits unread; each source is a shard.

        Raises:
            ConfigurationError: As for `load`, or there are classes without given names.
            DataError: A file is missing or empty.
        """
        from datasets import ClassLabel, Features, IterableDataset, IterableDatasetDict, Value

        self.check_columns(columns)
        for _, message in self.problems(columns):
            raise DataError(message)
        streams = IterableDatasetDict()
        for split, sources in self.sources().items():
            present = self.present(columns, sources)
            types: dict[str, Any] = features_of(present)
            names: Sequence[str] | None = None
            if (label := label_column(present)) is not None:
                names = self.class_names(label)
                if not names:
                    raise ConfigurationError(
                        "data.streaming: the classes are not known before all examples are read; name them "
                        "in data.labels of data 'table', or leave out data.streaming"
                    )
                types[label.name] = ClassLabel(names=list(names))
            streams[split] = IterableDataset.from_generator(
                self._records,
                features=Features({**types, "place": Value("string"), "fault": Value("string")}),
                # `datasets` takes lists for shards.
                gen_kwargs={
                    "sources": list(sources),
                    "columns": tuple(present),
                    "names": tuple(names or ()),
                },
            )
        return streams

    def notices(self) -> Sequence[str]:
        """Returns the number of skipped rows and the first errors."""
        return self._notices

    def class_names(self, label: Column) -> Sequence[str] | None:
        """Returns the names of the classes; None if they are those of the training examples."""
        return self._labels

    def _records(
        self, sources: Sequence[Any], columns: Sequence[Column], names: Sequence[str]
    ) -> Iterator[dict[str, Any]]:
        """Yields the rows of a stream, with the numbers of their classes, or with what is wrong with them."""
        first = None
        if self._zero_based is not None:
            first = first_number(names, (), zero_based=self._zero_based)
        classes, label = class_numbers(names, first), label_column(columns)
        for row in chain.from_iterable(self.read(source, columns) for source in sources):
            if isinstance(row, LoadedRow):
                values = {column.name: value for column, value in zip(columns, row.values, strict=True)}
                if label is None or values[label.name] in classes:
                    if label is not None:
                        values[label.name] = classes[values[label.name]]
                    yield {**values, "place": row.place, "fault": None}
                    continue
                row = _unknown_label(values[label.name], row.place, classes)
            if self._bad_rows == "refuse":
                raise row
            yield {**dict.fromkeys(column.name for column in columns), "place": "", "fault": str(row)}

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
        names = class_names(train) if declared is None else list(declared)
        first = None
        if declared is not None:
            every = {*chain.from_iterable(written.values())}
            first = first_number(names, every, zero_based=self._zero_based)
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


def label_column(columns: Sequence[Column]) -> Column | None:
    """Returns the column with one class for each example, if there is one; an optional one holds names."""
    from datasets import ClassLabel

    needed = (column for column in columns if not column.optional)
    return next((column for column in needed if isinstance(column.kind.feature, ClassLabel)), None)


def features_of(columns: Sequence[Column]) -> dict[str, Any]:
    """Returns the types of columns; the names of classes are texts until all of them are known."""
    from datasets import ClassLabel, Value

    types = {column.name: column.kind.feature for column in columns}
    return {name: Value("string") if isinstance(kind, ClassLabel) else kind for name, kind in types.items()}


def loaded_row(cells: Sequence[Any], columns: Sequence[Column], place: str) -> LoadedRow:
    """Returns a row with the values that the kinds of its columns read in its cells.

    Raises:
        DataError: A cell is not what its column holds, or two columns that belong together differ in length.
    """
    values = {
        column.name: read_cell(cell, column, place) for cell, column in zip(cells, columns, strict=True)
    }
    require_aligned(values, columns, place)
    return LoadedRow(tuple(values.values()), place)


def read_cell(cell: object, column: Column, place: str) -> Any:
    """Returns the value in a cell.

    Raises:
        DataError: The column holds something else, or the value is empty and must not be.
    """
    try:
        value = column.kind.read(cell)
    except ValueError as error:
        raise DataError(f"{place}: the {column.name} {error}") from error
    empty = not value.strip() if isinstance(value, str) else value in ([], {})
    if empty and not column.kind.empty:
        raise DataError(
            f"{place}: the {column.name} is empty, expected {column.holds}; fill it in or remove the row"
        )
    return value
