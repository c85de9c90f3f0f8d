"""Texts joined end to end and cut into pieces as long as a model reads at once."""

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from plugformer.data.columns import TokenColumn
from plugformer.interfaces import BEGIN, END, Ragged


class Packed:
    """Pieces of a stream of tokens: BEGIN, then each text with END behind it.

    Every token but BEGIN is in just one piece. The last piece may be shorter than others.

    Args:
        texts: The tokens of each text; read into memory, four bytes a token.
        rows: Which of the texts, in order.
        length: Tokens of a piece.
    """

    def __init__(self, texts: TokenColumn, rows: Int[ndarray, " rows"], length: int) -> None:
        whole = texts.take(rows)
        ends = np.cumsum(whole.lengths)
        tokens = np.insert(whole.values.astype(np.int32), ends, END)
        self._stream = np.insert(tokens, 0, BEGIN)
        self._length = length

    def __len__(self) -> int:
        return -(-(len(self._stream) - 1) // self._length)

    @property
    def lengths(self) -> Int[ndarray, " pieces"]:
        """Number of tokens of every piece."""
        lengths = np.full(len(self), self._length)
        lengths[-1:] = len(self._stream) - 1 - (len(self) - 1) * self._length
        return lengths

    def take(self, pieces: Int[ndarray, " chosen"]) -> Ragged:
        """Returns some pieces, in the order asked for."""
        lengths = self.lengths[pieces]
        starts = 1 + pieces * self._length
        places = np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
        return Ragged(self._stream[places], lengths)

    def before(self, pieces: Int[ndarray, " chosen"]) -> Ragged:
        """Returns the token before each of some pieces."""
        return Ragged(self._stream[pieces * self._length], np.ones(len(pieces), dtype=np.int64))
