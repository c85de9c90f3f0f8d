"""One token for each character that occurs often enough."""

from typing import Annotated

from pydantic import Field
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from plugformer.interfaces import SPECIAL_TOKENS, UNKNOWN
from plugformer_blocks import FastTokenizer


class NewComponent(FastTokenizer):
    """A vocabulary of the characters of the training texts; lossless on these, any other is UNKNOWN.

    The library's models and trainers: https://huggingface.co/docs/tokenizers/api/models.

    Args:
        min_frequency: How often a character must occur in training to have a token of its own.
    """

    def __init__(
        self,
        *,
        min_frequency: Annotated[int, Field(ge=1)] = 1,
    ) -> None:
        self.min_frequency = min_frequency
        super().__init__()

    def pipeline(self) -> Tokenizer:
        """Returns an empty model that cuts text between all characters, and joins them again."""
        tokenizer = Tokenizer(models.WordLevel({}, unk_token=SPECIAL_TOKENS[UNKNOWN]))
        # (?m) lets the dot match line breaks too.
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("(?m)."), "isolated")
        tokenizer.decoder = decoders.Fuse()
        return tokenizer

    def trainer(self) -> trainers.Trainer:
        """Returns a trainer that counts characters; the special tokens come first."""
        return trainers.WordLevelTrainer(
            vocab_size=2**48,  # no limit; the library's own default is 30,000
            min_frequency=self.min_frequency,
            special_tokens=list(SPECIAL_TOKENS),
            show_progress=False,
        )
