"""Chinese words."""

from typing import Annotated

from pydantic import Field
from tokenizers import Tokenizer, models, trainers

from plugformer.interfaces import SPECIAL_TOKENS, UNKNOWN
from plugformer_blocks import FastTokenizer
from plugformer_jieba.cutting import words

_UNLIMITED = 2**48


class JiebaWords(FastTokenizer):
    """One token for each word that jieba cuts, the most frequent first; a word that is not known is unknown.

    Text need have no spaces between words. Spaces and punctuation are tokens, too, so that decoding gives
    back the text as it was.
    See https://github.com/fxsjy/jieba.

    Args:
        min_frequency: How often a word must occur in training to have a token of its own.
        max_size: Number of tokens at most, the special ones included; the rarest words are left out.
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

    def pipeline(self) -> Tokenizer:
        """Returns a model that knows whole words."""
        return Tokenizer(models.WordLevel({}, unk_token=SPECIAL_TOKENS[UNKNOWN]))

    def trainer(self) -> trainers.Trainer:
        """Returns a trainer that counts words."""
        return trainers.WordLevelTrainer(
            vocab_size=self._max_size or _UNLIMITED,
            min_frequency=self._min_frequency,
            special_tokens=list(SPECIAL_TOKENS),
            show_progress=False,
        )

    def split(self, text: str) -> list[str]:
        """Cuts a text with jieba."""
        return words(text)

    def join(self, tokens: list[str]) -> str:
        """Puts words together as they were."""
        return "".join(tokens)
