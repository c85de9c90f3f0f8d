"""A vocabulary that somebody else has trained."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import tokenizers

from plugformer.errors import DataError, RunError
from plugformer.interfaces import SPECIAL_TOKENS, UNKNOWN
from plugformer_blocks import PipelineTokenizer, read_pipeline

_SHIFT = len(SPECIAL_TOKENS)


class Pretrained(PipelineTokenizer):
    """Any tokenizer.json, its numbers moved up to make room for Plugformer's special tokens.

    Its post-processor, padding and truncation are not used, and its own special tokens never come out: where
    text spells one, UNKNOWN does, unless its pipeline cuts the spelling into ordinary tokens.

    Args:
        path: The file; read in training only, since a run keeps a copy.
    """

    def __init__(self, *, path: Path) -> None:
        self._path = path
        self._use(tokenizers.Tokenizer(tokenizers.models.BPE()))

    def train(self, texts: Iterable[str]) -> None:
        """Reads the file.

        Raises:
            DataError: The file is missing or no tokenizer.json.
        """
        try:
            self.load(self._path)
        except RunError as error:
            raise DataError(f"tokenizer 'pretrained': path: {error}") from error

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns token numbers."""
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [
            [UNKNOWN if number in self._special else number + _SHIFT for number in encoding.ids]
            for encoding in encodings
        ]

    def encode_words(self, words: Sequence[str]) -> list[list[int]]:
        """Returns the tokens of each word; no space is added where the pipeline itself begins with one."""
        one, two = self.encode(["a", "a a"])
        return self.encode(words) if two == one + one else super().encode_words(words)

    def spelling(self, number: int) -> str:
        """Returns a token as the file has it, or a special token."""
        return SPECIAL_TOKENS[number] if number < _SHIFT else super().spelling(number - _SHIFT)

    @property
    def size(self) -> int:
        """Number of tokens, the special ones of both included."""
        return _SHIFT + max(self._tokenizer.get_vocab().values(), default=-1) + 1

    def load(self, file: Path) -> None:
        """Reads a tokenizer.json."""
        self._use(read_pipeline(file))

    def _use(self, tokenizer: tokenizers.Tokenizer) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        tokenizer.encode_special_tokens = True
        added = tokenizer.get_added_tokens_decoder()
        model = json.loads(tokenizer.to_str())["model"]  # it may have an unknown token of its own
        self._special = {
            *(number for number, token in added.items() if token.special),
            model.get("unk_id"),
            tokenizer.token_to_id(model.get("unk_token") or ""),
        }
        self._tokenizer = tokenizer
