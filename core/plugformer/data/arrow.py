"""Examples in Arrow files: written a few rows at a time, their columns read memory-mapped."""

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
from datasets import Dataset, Features
from jaxtyping import Float, Int
from numpy import ndarray

from plugformer.cache import scratch_folder
from plugformer.errors import DataError
from plugformer.interfaces import BEGIN, END, IGNORED, Ragged

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


class TokenColumn:
    """A column of lists of numbers: tokens, or the targets of tokens.

    Its values are views of the column's own buffers: nothing is read before it is asked for.

    Args:
        column: Lists of integers or of floats, null where a token has no target.
        limit: Longer rows are cut to so many tokens.
    """

    def __init__(self, column: pa.ChunkedArray, limit: int = sys.maxsize) -> None:
        self._limit = limit
        chunks = [chunk for chunk in column.chunks if len(chunk)]
        self._values = [_without_nulls(chunk.values).to_numpy(zero_copy_only=True) for chunk in chunks]
        self._offsets = [chunk.offsets.to_numpy(zero_copy_only=True) for chunk in chunks]
        self._first_rows = np.cumsum([0, *(len(chunk) for chunk in chunks)])

    @property
    def lengths(self) -> Int[ndarray, " rows"]:
        """Number of tokens of every row."""
        return self._whole.clip(max=self._limit)

    @property
    def kept(self) -> Float[ndarray, " rows"]:
        """Share of the tokens of every row that the limit has left."""
        shares: Float[ndarray, " rows"] = self.lengths.clip(min=1) / self._whole.clip(min=1)
        return shares

    @property
    def _whole(self) -> Int[ndarray, " rows"]:
        """Number of tokens of every row before it is cut."""
        none = np.empty(0, dtype=np.int64)  # concatenate needs at least one array
        return np.concatenate([none, *(np.diff(offsets) for offsets in self._offsets)])

    def take(self, rows: Int[ndarray, " chosen"]) -> Ragged:
        """Returns some rows, in the order asked for."""
        chunks = np.searchsorted(self._first_rows, rows, side="right") - 1
        inside = rows - self._first_rows[chunks]
        pieces = [
            self._values[chunk][self._offsets[chunk][row] : self._offsets[chunk][row + 1]][: self._limit]
            for chunk, row in zip(chunks.tolist(), inside.tolist(), strict=True)
        ]
        values = np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int64)
        return Ragged(values, np.array([len(piece) for piece in pieces], dtype=np.int64))


def _without_nulls(values: pa.Array) -> pa.Array:
    """Returns targets of tokens, IGNORED or NaN where a token has none."""
    if not values.null_count:
        return values
    return values.fill_null(math.nan if pa.types.is_floating(values.type) else IGNORED)


class Packed:
    """Pieces of a stream of tokens: BEGIN, then each text with END behind it.

    Every token but BEGIN is in just one piece. The last piece may be shorter than others. Training begins
    pieces at another offset in each epoch, so that a token is not always read with the same ones before it.

    Args:
        texts: The tokens of each text; read into memory, four bytes a token.
        rows: Which of the texts, in order.
        length: Tokens of a piece.

    Attributes:
        length: Tokens of a piece.
    """

    def __init__(self, texts: TokenColumn, rows: Int[ndarray, " rows"], length: int) -> None:
        whole = texts.take(rows)
        ends = np.cumsum(whole.lengths)
        tokens = np.insert(whole.values.astype(np.int32), ends, END)
        self._stream = np.insert(tokens, 0, BEGIN)
        self.length = length

    def __len__(self) -> int:
        return -(-(len(self._stream) - 1) // self.length)

    @property
    def lengths(self) -> Int[ndarray, " pieces"]:
        """Number of tokens of every piece."""
        lengths = np.full(len(self), self.length)
        lengths[-1:] = len(self._stream) - 1 - (len(self) - 1) * self.length
        return lengths

    def take(self, pieces: Int[ndarray, " chosen"], offset: int = 0) -> Ragged:
        """Returns some pieces, in the order asked for.

        Args:
            pieces: Their numbers.
            offset: How many tokens later each begins; those at the end are not moved beyond it.
        """
        lengths = self.lengths[pieces]
        starts = self._starts(pieces, offset)
        places = np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
        return Ragged(self._stream[places], lengths)

    def before(self, pieces: Int[ndarray, " chosen"], offset: int = 0) -> Ragged:
        """Returns the token before each of some pieces."""
        return Ragged(self._stream[self._starts(pieces, offset) - 1], np.ones(len(pieces), dtype=np.int64))

    def _starts(self, pieces: Int[ndarray, " chosen"], offset: int) -> Int[ndarray, " chosen"]:
        starts = 1 + pieces * self.length + offset
        within: ndarray = np.minimum(starts, len(self._stream) - self.lengths[pieces])
        return within
