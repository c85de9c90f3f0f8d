"""Examples as numbers: columns of tokens, and pieces of texts joined end to end."""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from numpy.typing import NDArray

from plugformer.interfaces import BEGIN, END, IGNORED, Ragged

SIDES = ("input", "output")
"""What task types encode as tokens."""


class TokenColumn:
    """A column of lists of numbers: tokens, or the targets of tokens.

    Args:
        values: The numbers of all rows, in one array or several.
        offsets: For each array where its rows begin, and where the last one ends.
        limit: Most tokens of a row; longer ones are cut.
    """

    def __init__(
        self, values: Sequence[ndarray], offsets: Sequence[Int[ndarray, " bounds"]], limit: int = sys.maxsize
    ) -> None:
        self._limit = limit
        self._values = values
        self._offsets = offsets
        self._first_rows = np.cumsum([0, *(len(bounds) - 1 for bounds in offsets)])

    @classmethod
    def of(cls, rows: Sequence[Sequence[Any]]) -> "TokenColumn":
        """Returns a column of rows in memory, None where a token has no target."""
        numbers = [*chain.from_iterable(rows)]
        floating = any(isinstance(number, float | np.floating) for number in numbers)
        absent = math.nan if floating else IGNORED
        known = [absent if number is None else number for number in numbers]
        values = np.array(known, dtype=np.float64 if floating else np.int64)
        return cls([values], [np.cumsum([0, *map(len, rows)])])

    def cut(self, limit: int) -> "TokenColumn":
        """Returns the column with its rows cut to so many tokens."""
        return TokenColumn(self._values, self._offsets, limit)

    @property
    def lengths(self) -> Int[ndarray, " rows"]:
        """Number of tokens of every row."""
        return self._whole.clip(max=self._limit)

    @property
    def kept(self) -> Float[ndarray, " rows"]:
        """Share of the tokens of every row that are within the limit."""
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


class Packed:
    """Pieces of a stream of tokens: BEGIN, then each text with END behind it.

    Every token but BEGIN is in exactly one piece. The last piece may be shorter. Training begins pieces at
    another offset in each epoch, so that a token is not always read with the same ones before it.

    Args:
        texts: The tokens of each text; read into memory, four bytes a token.
        rows: Numbers of the texts, in order.
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
            offset: Tokens by which each begins later; pieces at the end stay within the stream.
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


@dataclass(frozen=True)
class EncodedExamples:
    """Examples, and the numbers that a task type has made of them.

    Attributes:
        examples: A sequence of an `Example` each, with labels by their names: a list or a `Dataset`.
        tokens: The token numbers of `input` and of `output`, if there are any.
        targets: The targets of each example, or of its tokens, if there are any.
    """

    examples: Any
    tokens: Mapping[str, TokenColumn]
    targets: TokenColumn | NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.examples)
