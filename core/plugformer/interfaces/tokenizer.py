"""Tokenizers: from text to token ids, and back."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

PADDING, UNKNOWN, BEGIN, END = 0, 1, 2, 3
"""The ids of the special tokens, with which every vocabulary begins."""

SPECIAL_TOKENS = ("<padding >", "<unknown >", "<begin >", "<end >")
"""Their spelling. Because of the space inside, no text can become one: no tokenizer yields such a token."""


class Tokenizer(ABC):
    """Learns a vocabulary from text, deterministically; then encodes and decodes batches.

    A component is constructed as `SomeTokenizer(**options)`, then either trained or loaded.
    """

    @abstractmethod
    def train(self, texts: Iterable[str]) -> None:
        """Learns the vocabulary from the training texts, possibly more than fit into memory.

        Raises:
            DataError: There is no text.
        """

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns each text's ids without special tokens; parts that the vocabulary lacks become UNKNOWN."""

    @abstractmethod
    def decode(self, rows: Iterable[Sequence[int]]) -> list[str]:
        """Returns each row as text, without special tokens except UNKNOWN, which becomes "<unk>"."""

    @abstractmethod
    def tokens(self, row: Sequence[int]) -> list[str]:
        """Returns the spelling of each token of a row."""

    def sampling(self, generator: "np.random.Generator") -> "Tokenizer":  # noqa: ARG002 (a default)
        """Returns a tokenizer that draws how it splits texts; by default this one, which draws nothing.

        Each epoch of a training encodes all examples with it (subword regularization, Kudo 2018:
        https://arxiv.org/abs/1804.10959). Evaluation and prediction do not use it.
        """
        return self

    def encode_words(self, words: Sequence[str]) -> list[list[int]]:
        """Returns the tokens of each word of a text; together, those of the words joined by spaces.

        By default each word is encoded with a space before it, as with transformers' `add_prefix_space`.
        """
        return self.encode([f" {word}" for word in words])

    def unknown(self, text: str) -> list[str]:
        """Returns the parts of a text that become UNKNOWN, in order: words or single characters."""
        words = text.split()
        unknown: list[str] = []
        for word, row in zip(words, self.encode(words), strict=True):
            if UNKNOWN in row:
                rows = zip(word, self.encode(list(word)), strict=True)
                characters = [character for character, ids in rows if UNKNOWN in ids]
                unknown += [word] if row == [UNKNOWN] or not characters else characters
        return unknown

    def token_bytes(self, *, at_start: bool) -> list[bytes]:
        """Returns the UTF-8 bytes that each token adds to a text; empty for special tokens or if unknown.

        By default each token is decoded alone (`at_start`) or after another one. A tokenizer whose tokens may
        be parts of characters should override this method.
        """
        ordinary = range(len(SPECIAL_TOKENS), self.size)
        alone = self.decode([[number] for number in ordinary])
        texts = alone
        if not at_start:
            front, before = next(
                ((number, text) for number, text in zip(ordinary, alone, strict=True) if text), (END, "")
            )
            behind = self.decode([[front, number] for number in ordinary])
            texts = [text.removeprefix(before) if text.startswith(before) else "" for text in behind]
        return [b""] * len(SPECIAL_TOKENS) + [b"" if "\ufffd" in text else text.encode() for text in texts]

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of tokens in the vocabulary, the special ones included."""

    @abstractmethod
    def save(self, file: Path) -> None:
        """Writes the vocabulary as JSON (the format of Hugging Face tokenizers)."""

    @abstractmethod
    def load(self, file: Path) -> None:
        """Reads what `save` wrote into a tokenizer constructed with the same options.

        Raises:
            RunError: The file is missing or damaged.
        """
