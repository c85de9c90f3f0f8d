"""Tokenizers: from text to rows of numbers, and back."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

PADDING, UNKNOWN, BEGIN, END = 0, 1, 2, 3
"""Numbers of the special tokens; every tokenizer starts its vocabulary with these four."""

SPECIAL_TOKENS = ("<padding >", "<unknown >", "<begin >", "<end >")
"""Their spelling. The space inside keeps text that spells one from ever becoming it: no splitter or merge
yields a token with a space in it."""


class Tokenizer(ABC):
    """Learns a vocabulary from text, then encodes and decodes batches.

    A component is constructed as `SomeTokenizer(**options)`, then either trained or loaded. A learned
    vocabulary has a canonical order: the same text gives the same numbers in every process. Text that spells
    a special token never becomes one, and `encode` adds none: the core places BEGIN and END.
    """

    @abstractmethod
    def train(self, texts: Iterable[str]) -> None:
        """Learns the vocabulary from the texts of the training split.

        Args:
            texts: More than memory may hold. Those of a data set can be read more than once; an iterator, as
                always, only once.

        Raises:
            DataError: There is no text.
        """

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns each text's token numbers; what the vocabulary cannot spell becomes UNKNOWN."""

    @abstractmethod
    def decode(self, rows: Iterable[Sequence[int]]) -> list[str]:
        """Returns each row as text; special tokens are left out, but UNKNOWN is shown as "<unk>"."""

    @abstractmethod
    def tokens(self, row: Sequence[int]) -> list[str]:
        """Returns the spelling of each token of a row, for people to read."""

    def sampling(self, generator: "np.random.Generator") -> "Tokenizer":  # noqa: ARG002 (a default)
        """Returns a tokenizer that draws how it cuts texts; by default this one, which draws nothing.

        Every epoch of a training encodes each example anew with it (subword regularization, Kudo 2018:
        https://arxiv.org/abs/1804.10959); evaluation and prediction never do. Only the tokens are random, not
        the text that they spell. This tokenizer stays as it is.

        Args:
            generator: Where all random numbers come from; a resumed training gets the same again.
        """
        return self

    def encode_words(self, words: Sequence[str]) -> list[list[int]]:
        """Returns the tokens of each word of a text that is given as words.

        In a row they are the tokens of the words joined by spaces, as which `train` gets such a text: by
        default each word is encoded with a space before it, which most tokenizers keep in the word's first
        token (`add_prefix_space` in transformers) and those that cut at white space ignore.
        """
        return self.encode([f" {word}" for word in words])

    def unknown(self, text: str) -> list[str]:
        """Returns the parts of a text that become UNKNOWN, in their order.

        Found by encoding words, then characters, alone: a tokenizer that knows which characters a token came
        from says it better itself.
        """
        words = text.split()
        found: list[str] = []
        for word, row in zip(words, self.encode(words), strict=True):
            if UNKNOWN in row:
                characters = self.encode(list(word))
                single = [each for each, ids in zip(word, characters, strict=True) if UNKNOWN in ids]
                found += [word] if row == [UNKNOWN] or not single else single
        return found

    def token_bytes(self, *, at_start: bool) -> list[bytes]:
        """Returns the UTF-8 bytes that each token adds to a text, which is those of its tokens in a row.

        Patterns of outputs are matched by them. Empty for special tokens, and for a token that adds nothing
        or whose bytes are not known; no pattern then uses it. Found by decoding each token alone or after
        another one; a tokenizer whose tokens may be parts of characters should override this.

        Args:
            at_start: Of tokens at the beginning of a text, which some tokenizers decode without the space
                that they put between words; else of tokens after others.
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
