"""Texts and token numbers in Arrow columns, read a few rows at a time; what is memory-mapped stays so."""

import sys
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from datasets import Dataset
from jaxtyping import Int
from numpy import ndarray

from plugformer.interfaces.batch import Ragged


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
            for table in self._data.select_columns(column).with_format("arrow").iter(1000):
                for value in table.column(column).to_pylist():
                    yield value if isinstance(value, str) else " ".join(value)


class TokenColumn:
    """A column of lists of integers.

    Its values are views of the column's own buffers: nothing is read before it is asked for.

    Args:
        column: Lists of integers without nulls.
        limit: Longer rows are cut to so many tokens.
    """

    def __init__(self, column: pa.ChunkedArray, limit: int = sys.maxsize) -> None:
        self._limit = limit
        chunks = [chunk for chunk in column.chunks if len(chunk)]
        self._values = [chunk.values.to_numpy(zero_copy_only=True) for chunk in chunks]
        self._offsets = [chunk.offsets.to_numpy(zero_copy_only=True) for chunk in chunks]
        self._first_rows = np.cumsum([0, *(len(chunk) for chunk in chunks)])

    @property
    def lengths(self) -> Int[ndarray, " rows"]:
        """Number of tokens of every row."""
        none = np.empty(0, dtype=np.int64)  # concatenate needs at least one array
        lengths = np.concatenate([none, *(np.diff(offsets) for offsets in self._offsets)])
        return lengths.clip(max=self._limit)

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
