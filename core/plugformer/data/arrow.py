"""Examples in Arrow files: written a few rows at a time, their columns read memory-mapped."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
from datasets import ClassLabel, Dataset, Features
from numpy.typing import NDArray

from plugformer.cache import scratch_folder
from plugformer.data.columns import SIDES, EncodedExamples, TokenColumn
from plugformer.errors import DataError
from plugformer.interfaces import IGNORED, Example, Level

ENCODED = "encoded_"
"""Prefix of the columns with what a task type has encoded: input, output, targets."""

PLACE = "examples"
"""Folder of the cache for examples."""

ROWS = 1000
"""Rows that are in memory at a time."""


def write_arrow(file: Path, tables: Iterable[pa.Table], features: Features) -> None:
    """Writes tables one after the other into one file, which `Dataset.from_file` reads.

    Args:
        file: Where to.
        tables: With the columns of `features`, in any order, and possibly others, which are left out.
        features: Names and types of the columns.

    Raises:
        DataError: The disk is full, or fails.
    """
    schema = features.arrow_schema
    try:
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
            for table in tables:
                # Rows picked from a data set come in a chunk each, and reading many chunks is slow.
                writer.write_table(table.select(schema.names).cast(schema).combine_chunks())
    except OSError as error:
        raise DataError(
            f"{file}: cannot write examples: {error}; make room, or name another folder with PLUGFORMER_CACHE"
        ) from error


def on_disk(rows: Iterable[Sequence[object]], features: Features) -> Dataset:
    """Returns rows as a memory-mapped data set: there may be more of them than memory holds.

    Args:
        rows: Each with a value for every column; consumed as they are written.
        features: Names and types of the columns.
    """
    return mapped(lambda file: write_arrow(file, _tables(rows, features.arrow_schema), features))


def mapped(write: Callable[[Path], object]) -> Dataset:
    """Returns a memory-mapped data set of what is written into an Arrow file.

    Args:
        write: Writes the file.
    """
    file = scratch_folder(PLACE) / f"{uuid4().hex}.arrow"
    try:
        write(file)
        return Dataset.from_file(str(file))
    finally:
        with suppress(OSError):  # what is mapped stays readable; Windows keeps it until the process ends
            file.unlink()


def _tables(rows: Iterable[Sequence[object]], schema: pa.Schema) -> Iterator[pa.Table]:
    remaining = iter(rows)
    while chunk := list(islice(remaining, ROWS)):
        columns = zip(*chunk, strict=True)
        arrays = [pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)]
        yield pa.Table.from_arrays(arrays, schema=schema)


class Texts(Iterable[str]):
    """The texts of columns, one column after the other; they can be read more than once.

    Words of a column are joined by spaces.

    Args:
        data: Has the columns.
        columns: Their names.
    """

    def __init__(self, data: Dataset, *columns: str) -> None:
        self._data = data
        self._columns = columns

    def __iter__(self) -> Iterator[str]:
        for column in self._columns:
            for table in self._data.select_columns(column).with_format("arrow").iter(ROWS):
                for value in table.column(column).to_pylist():
                    yield value if isinstance(value, str) else " ".join(value)


class StoredExamples(Sequence[Example]):
    """What the examples of a data set say, a label by its name; read when it is asked for.

    Args:
        data: The data set; columns with numbers are left out.
    """

    def __init__(self, data: Dataset) -> None:
        self._length = len(data)
        self._data = data.remove_columns([name for name in data.column_names if name.startswith(ENCODED)])
        features = self._data.features.items()
        self._labels = {name: each for name, each in features if isinstance(each, ClassLabel)}

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, row: Any) -> Any:
        return self._named(self._data[row])

    def __iter__(self) -> Iterator[Example]:
        for columns in self._data.iter(ROWS):
            for values in zip(*columns.values(), strict=True):
                yield self._named(dict(zip(columns, values, strict=True)))

    def _named(self, example: dict[str, Any]) -> Example:
        return example | {name: each.int2str(example[name]) for name, each in self._labels.items()}


def encoded_examples(data: Dataset, level: Level) -> EncodedExamples:
    """Returns the examples of a data set that has columns of numbers.

    Args:
        data: The data set.
        level: Of its task's type, which says what targets belong to.
    """
    table = data.with_format("arrow")[:]
    numbers = {
        name.removeprefix(ENCODED): table.column(name)
        for name in table.column_names
        if name.startswith(ENCODED)
    }
    targets = numbers.pop("targets", None)
    tokens = {name: token_column(column) for name, column in numbers.items() if name in SIDES}
    found = None if targets is None else _targets(targets, level)
    return EncodedExamples(StoredExamples(data), tokens, found)


def token_column(column: pa.ChunkedArray) -> TokenColumn:
    """Returns a column of lists of numbers as views of its own buffers, read when needed.

    Args:
        column: Lists of integers or of floats, null where a token has no target.
    """
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    return TokenColumn(
        [_without_nulls(chunk.values).to_numpy(zero_copy_only=True) for chunk in chunks],
        [chunk.offsets.to_numpy(zero_copy_only=True) for chunk in chunks],
    )


def _targets(column: pa.ChunkedArray, level: Level) -> TokenColumn | NDArray[Any]:
    """Returns the targets of examples, or of their tokens."""
    if level is Level.TOKEN:
        return token_column(column)
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return np.array(column.to_pylist())
    found: NDArray[Any] = column.to_numpy()
    return found


def _without_nulls(values: pa.Array) -> pa.Array:
    """Returns targets of tokens, IGNORED or NaN where a token has none."""
    if not values.null_count:
        return values
    return values.fill_null(math.nan if pa.types.is_floating(values.type) else IGNORED)
