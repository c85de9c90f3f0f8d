"""What tokenizers have in common whose vocabulary is a list of whole pieces, the most frequent first."""

from abc import abstractmethod
from typing import Annotated

from pydantic import Field
from tokenizers import Tokenizer, models, trainers

from plugformer.interfaces import SPECIAL_TOKENS, UNKNOWN
from plugformer_blocks import FastTokenizer

_UNLIMITED = 2**48


class WordLevel(FastTokenizer):
    """Cuts text into pieces, and knows those that occur often enough; the others are unknown.

    Args:
        min_frequency: How often a piece must occur in training to have a token of its own.
        max_size: Number of tokens at most, the special ones included; the rarest pieces are left out.
    """

    def __init__(
        self,
        *,
        min_frequency: Annotated[int, Field(ge=1)] = 1,
        max_size: Annotated[int, Field(gt=len(SPECIAL_TOKENS))] | None = None,
    ) -> None:
        self._min_frequency = min_frequency
        self._max_size = max_size
        super().__init__()

    @abstractmethod
    def cut(self, tokenizer: Tokenizer) -> None:
        """Gives an empty pipeline what cuts text into pieces and, unless they are words, joins them again."""

    def pipeline(self) -> Tokenizer:
        """Returns a word-level model over the pieces."""
        tokenizer = Tokenizer(models.WordLevel({}, unk_token=SPECIAL_TOKENS[UNKNOWN]))
        self.cut(tokenizer)
        return tokenizer

    def trainer(self) -> trainers.Trainer:
        """Returns a trainer that counts; pieces of equal frequency are sorted as text."""
        return trainers.WordLevelTrainer(
            vocab_size=self._max_size or _UNLIMITED,
            min_frequency=self._min_frequency,
            special_tokens=list(SPECIAL_TOKENS),
            show_progress=False,
        )
