"""A tokenizer whose tokens can be read off a text."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from plugformer.interfaces import SPECIAL_TOKENS, UNKNOWN, Tokenizer


class Pieces(Tokenizer):
    """Knows spaces and pieces of words of at most three characters, the ones that it was trained on.

    Args:
        texts: What it is trained on.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.train(texts)

    def train(self, texts: Iterable[str]) -> None:
        """Learns the pieces, in sorted order."""
        found = {piece for text in texts for piece in _cut(text)}
        self._pieces = [*SPECIAL_TOKENS, *sorted(found)]
        self._numbers = {piece: number for number, piece in enumerate(self._pieces)}

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the numbers of pieces."""
        return [[self._numbers.get(piece, UNKNOWN) for piece in _cut(text)] for text in texts]

    def decode(self, rows: Iterable[Sequence[int]]) -> list[str]:
        """Returns the pieces joined."""
        return ["".join(self.tokens(row)) for row in rows]

    def tokens(self, row: Sequence[int]) -> list[str]:
        """Returns the pieces."""
        ordinary = len(SPECIAL_TOKENS)
        return [
            self._pieces[number] if number >= ordinary else "<unk>" * (number == UNKNOWN) for number in row
        ]

    @property
    def size(self) -> int:
        """Number of pieces."""
        return len(self._pieces)

    def save(self, file: Path) -> None:
        """Does nothing: it is made anew."""

    def load(self, file: Path) -> None:
        """Does nothing."""


def _cut(text: str) -> list[str]:
    return re.findall(r"\s|\S{1,3}", text)
