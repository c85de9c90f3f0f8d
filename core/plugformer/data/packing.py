"""Texts joined end to end and cut into pieces as long as a model reads at once."""

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from plugformer.data.columns import TokenColumn
from plugformer.interfaces import BEGIN, END, Ragged


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
        starts: ndarray = 1 + pieces * self.length + offset
        return np.minimum(starts, len(self._stream) - self.lengths[pieces])
