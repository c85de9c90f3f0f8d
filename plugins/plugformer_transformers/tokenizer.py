"""The tokenizer of a pretrained model."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import tokenizers
from pydantic import Field

from plugformer.errors import DataError, RunError
from plugformer.interfaces import BEGIN, END, PADDING, SPECIAL_TOKENS, UNKNOWN
from plugformer_blocks import PipelineTokenizer, read_pipeline
from plugformer_transformers.weights import Vocabulary

Four = Annotated[
    list[int],
    Field(min_length=4, max_length=4, description="Numbers of padding, unknown, begin and end there."),
]


class TransformersTokenizer(PipelineTokenizer):
    """A tokenizer.json whose tokens are numbered anew: special tokens first, all others in their order.

    So rows of an embedding can be taken along. Its post-processor, padding and truncation are not used: the
    architecture puts BEGIN and END around texts. Where text spells a special token, it is cut like text.

    Args:
        path: The file; read in training only, since a run keeps a copy.
        special: Numbers there of PADDING, UNKNOWN, BEGIN and END. One number may serve several.
        size: Number of tokens there: the rows of the embedding, which may be more than the file has tokens.
            None: as many as the file has.
        front: Number there of a token in front of every text, besides BEGIN; None for none.
    """

    def __init__(
        self,
        *,
        path: Path,
        special: Four = [0, 1, 2, 3],  # noqa: B006 (pydantic copies it)
        size: Annotated[int | None, Field(ge=1)] = None,
        front: Annotated[int | None, Field(ge=0)] = None,
    ) -> None:
        self._path = path
        self.special = special
        self._given = size
        self._front = front
        self._use(tokenizers.Tokenizer(tokenizers.models.BPE()))

    @property
    def backend_tokenizer(self) -> tokenizers.Tokenizer:
        """The pipeline, with the numbers there."""
        return self._tokenizer

    def train(self, texts: Iterable[str]) -> None:
        """Reads the file.

        Raises:
            DataError: The file is missing or no tokenizer.json.
        """
        del texts
        try:
            self.load(self._path)
        except RunError as error:
            raise DataError(f"tokenizer 'transformers': path: {error}") from error

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns token numbers."""
        rows = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        front = [] if self._front is None else [self._number[self._front]]
        return [[*front, *(self._number[token] for token in row.ids)] for row in rows]

    def encode_words(self, words: Sequence[str]) -> list[list[int]]:
        """Returns the tokens of each word; no space is added where the pipeline itself begins with one."""
        one, two = self.encode(["a", "a a"])
        return self.encode(words) if two == one + one else super().encode_words(words)

    def decode(self, rows: Iterable[Sequence[int]]) -> list[str]:
        """Returns each row as text, without special tokens of either kind except UNKNOWN."""
        return super().decode([token for token in row if token not in self._silent] for row in rows)

    def spelling(self, number: int) -> str:
        """Returns a token as the file has it, or a special token."""
        return SPECIAL_TOKENS[number] if number <= END else super().spelling(self.numbers[number])

    @property
    def size(self) -> int:
        """Number of tokens."""
        return len(self.numbers)

    @property
    def numbers(self) -> Sequence[int]:
        """The number there of each token."""
        return self._map.tokens

    @property
    def vocabulary(self) -> Vocabulary:
        """From the numbers there to those here."""
        return self._map

    @property
    def front(self) -> int | None:
        """Number there of a token in front of every text, if there is one."""
        return self._front

    def load(self, file: Path) -> None:
        """Reads a tokenizer.json."""
        self._use(read_pipeline(file))

    def _use(self, tokenizer: tokenizers.Tokenizer) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer
        known = max(tokenizer.get_vocab().values(), default=-1) + 1
        self._map = Vocabulary.of(self.special, max(self._given or known, known))
        self._number = {token: number for number, token in enumerate(self.numbers) if number > END}
        model = json.loads(tokenizer.to_str())["model"]
        unknown = {model.get("unk_id"), tokenizer.token_to_id(model.get("unk_token") or "")}
        added = tokenizer.get_added_tokens_decoder()
        silent = {token for token, each in added.items() if each.special} - unknown
        self._silent = {PADDING, BEGIN, END} | {
            self._number[token] for token in silent if token in self._number
        }
        for token in self.special:  # a model may yield one of them for a text, mostly the unknown one
            self._number[token] = UNKNOWN
