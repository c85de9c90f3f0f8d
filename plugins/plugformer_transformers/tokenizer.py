"""The tokenizer of a pretrained model."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import tokenizers
from pydantic import Field

from plugformer.interfaces import BEGIN, END, PADDING, SPECIAL_TOKENS, UNKNOWN
from plugformer_blocks import ForeignTokenizer
from plugformer_transformers.weights import Vocabulary

Four = Annotated[
    list[int],
    Field(min_length=4, max_length=4, description="Numbers of padding, unknown, begin and end there."),
]


class TransformersTokenizer(ForeignTokenizer):
    """The tokenizer of a pretrained model, its special tokens in the places of ours.

    A tokenizer.json whose tokens are numbered anew: special tokens first, all others in their order.
    See https://huggingface.co/docs/transformers/fast_tokenizers.

    So rows of an embedding can be taken along. Its post-processor, padding and truncation are not used: the
    architecture puts BEGIN and END around texts. Where text spells a special token, it is cut like text.

    Args:
        path: The file; read in training only, since a run keeps a copy.
        special: Numbers there of PADDING, UNKNOWN, BEGIN and END. One number may serve several.
        size: Number of tokens there: the rows of the embedding, which may be more than the file has tokens.
            None: as many as the file has.
        front: Number there of a token in front of every text, besides BEGIN; None for none.

    Attributes:
        vocabulary: The numbers there of all tokens.
    """

    name = "transformers"

    def __init__(
        self,
        *,
        path: Path,
        special: Four = [0, 1, 2, 3],  # noqa: B006 (pydantic copies it)
        size: Annotated[int | None, Field(ge=1)] = None,
        front: Annotated[int | None, Field(ge=0)] = None,
    ) -> None:
        self.special = special
        self._given = size
        self.front = front
        super().__init__(path)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns token numbers."""
        rows = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        front = [] if self.front is None else [self._number[self.front]]
        return [[*front, *(self._number[token] for token in row.ids)] for row in rows]

    def decode(self, rows: Iterable[Sequence[int]]) -> list[str]:
        """Returns each row as text, without special tokens of either kind except UNKNOWN."""
        return super().decode([token for token in row if token not in self._silent] for row in rows)

    def spelling(self, number: int) -> str:
        """Returns a token as the file has it, or a special token."""
        return SPECIAL_TOKENS[number] if number <= END else super().spelling(self.vocabulary.tokens[number])

    @property
    def size(self) -> int:
        """Number of tokens."""
        return len(self.vocabulary.tokens)

    def use(self, pipeline: tokenizers.Tokenizer) -> None:
        """Takes a pipeline, and numbers its tokens."""
        super().use(pipeline)
        known = max(pipeline.get_vocab().values(), default=-1) + 1
        self.vocabulary = Vocabulary.of(self.special, max(self._given or known, known))
        self._number = {token: number for number, token in enumerate(self.vocabulary.tokens) if number > END}
        silent = self.special_numbers - self.unknown_numbers
        self._silent = {PADDING, BEGIN, END} | {
            self._number[token] for token in silent if token in self._number
        }
        for token in self.special:  # a model may yield one of them for a text, mostly the unknown one
            self._number[token] = UNKNOWN
