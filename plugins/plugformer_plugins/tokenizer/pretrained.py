"""A tokenizer that was trained elsewhere."""

from collections.abc import Sequence
from pathlib import Path

import tokenizers

from plugformer.interfaces import SPECIAL_TOKENS, UNKNOWN
from plugformer_blocks import ForeignTokenizer

_SHIFT = len(SPECIAL_TOKENS)


class Pretrained(ForeignTokenizer):
    """Any tokenizer.json, its numbers moved up to make room for Plugformer's special tokens.

    Its post-processor, padding and truncation are not used, and its own special tokens never come out: where
    text spells one, UNKNOWN does, unless its pipeline cuts the spelling into ordinary tokens.
    See https://huggingface.co/docs/tokenizers/index.

    Args:
        path: The file; read in training only, since a run keeps a copy.
    """

    name = "pretrained"

    def __init__(self, *, path: Path) -> None:
        super().__init__(path)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns token numbers."""
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [
            [UNKNOWN if number in self._special else number + _SHIFT for number in encoding.ids]
            for encoding in encodings
        ]

    def spelling(self, number: int) -> str:
        """Returns a token as the file has it, or a special token."""
        return SPECIAL_TOKENS[number] if number < _SHIFT else super().spelling(number - _SHIFT)

    @property
    def size(self) -> int:
        """Number of tokens, the special ones of both included."""
        return _SHIFT + max(self._tokenizer.get_vocab().values(), default=-1) + 1

    def use(self, pipeline: tokenizers.Tokenizer) -> None:
        """Takes a pipeline."""
        super().use(pipeline)
        self._special = self.special_numbers | self.unknown_numbers
