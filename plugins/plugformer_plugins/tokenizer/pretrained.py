"""A vocabulary that somebody else has trained."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders

from plugformer.errors import DataError, RunError
from plugformer.interfaces import SPECIAL_TOKENS, UNKNOWN, Tokenizer
from plugformer_blocks import byte_piece, read_pipeline

_SHIFT = len(SPECIAL_TOKENS)


class Pretrained(Tokenizer):
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

    def decode(self, rows: Iterable[Sequence[int]]) -> list[str]:
        """Returns each row as text, by the file's own decoder."""
        kept = ([number for number in row if number == UNKNOWN or number >= _SHIFT] for row in rows)
        spelled = (
            ["<unk>" if number == UNKNOWN else self._spelling(number) for number in row] for row in kept
        )
        return [self._join(tokens) for tokens in spelled]

    def tokens(self, row: Sequence[int]) -> list[str]:
        """Returns each token's spelling; bytes are shown as the text they are, or as a replacement mark."""
        spelled = [self._spelling(number) for number in row]
        if not isinstance(self._tokenizer.decoder, decoders.ByteLevel):
            return spelled
        return [self._join([token]) for token in spelled]

    def token_bytes(self, *, at_start: bool) -> list[bytes]:
        """Returns the bytes that each token adds to a text; tokens of bytes may be parts of characters."""
        if not isinstance(self._tokenizer.decoder, decoders.ByteLevel):
            return super().token_bytes(at_start=at_start)
        return [b""] * _SHIFT + [byte_piece(self._spelling(number)) for number in range(_SHIFT, self.size)]

    @property
    def size(self) -> int:
        """Number of tokens, the special ones of both included."""
        return _SHIFT + max(self._tokenizer.get_vocab().values(), default=-1) + 1

    def save(self, file: Path) -> None:
        """Writes the tokenizer.json."""
        file.write_text(self._tokenizer.to_str(pretty=True), encoding="utf-8")

    def load(self, file: Path) -> None:
        """Reads a tokenizer.json."""
        self._use(read_pipeline(file))

    def _use(self, tokenizer: tokenizers.Tokenizer) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        tokenizer.encode_special_tokens = True
        added = tokenizer.get_added_tokens_decoder()
        self._special = {number for number, token in added.items() if token.special} | _unknown(tokenizer)
        self._tokenizer = tokenizer

    def _spelling(self, number: int) -> str:
        if number < _SHIFT:
            return SPECIAL_TOKENS[number]
        return self._tokenizer.id_to_token(number - _SHIFT) or ""

    def _join(self, tokens: list[str]) -> str:
        decoder = self._tokenizer.decoder
        return " ".join(tokens) if decoder is None else decoder.decode(tokens)


def _unknown(tokenizer: tokenizers.Tokenizer) -> set[int]:
    """Returns the number of the model's own unknown token, if it has one."""
    model: dict[str, Any] = json.loads(tokenizer.to_str())["model"]
    number = model.get("unk_id")
    if number is None and (token := model.get("unk_token")):
        number = tokenizer.token_to_id(token)
    return set() if number is None else {number}
