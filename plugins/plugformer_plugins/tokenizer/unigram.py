"""Unigram language model over subwords."""

import json
from collections.abc import Iterable
from typing import Annotated

from pydantic import Field
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from plugformer.errors import ConfigurationError
from plugformer.interfaces import SPECIAL_TOKENS, UNKNOWN
from plugformer_blocks import FastTokenizer
from plugformer_plugins.tokenizer.cleaning import Normalization, cleaning

_PENALTY = 1e-4
"""What the trainer adds to the score of each further character that it has learned nothing about."""

_DIGITS = 4
"""Of scores: far above the rounding errors by which they differ between processes."""


class Unigram(FastTokenizer):
    """Pieces with probabilities; a text is cut into the most probable sequence of them.

    Kudo (2018), section 3.2, https://arxiv.org/abs/1804.10959: starts from many pieces and prunes those whose
    loss costs the training text's likelihood least. A space belongs to the word behind it.

    Args:
        size: Number of tokens, the special ones included; fewer where the text has no more.
        normalization: Unicode normal form of the text.
        lowercase: Whether text is lower-cased.
    """

    def __init__(
        self,
        *,
        size: Annotated[int, Field(gt=len(SPECIAL_TOKENS), le=2**20)] = 8000,
        normalization: Normalization = "none",
        lowercase: bool = False,
    ) -> None:
        self._size = size
        self._cleaning = cleaning(normalization, lowercase=lowercase)
        super().__init__()

    def pipeline(self) -> Tokenizer:
        """Returns a unigram model over words with their leading space."""
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.normalizer = self._cleaning
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = decoders.Metaspace()
        return tokenizer

    def trainer(self) -> trainers.Trainer:
        """Returns a trainer by expectation maximization."""
        return trainers.UnigramTrainer(
            vocab_size=self._size,
            special_tokens=list(SPECIAL_TOKENS),
            unk_token=SPECIAL_TOKENS[UNKNOWN],
            show_progress=False,
        )

    def learned(self, learner: Tokenizer) -> models.Model:
        """Returns the model, the most probable pieces first.

        Sums of different order give scores that differ in their last bits from process to process, and
        characters that are no piece of the result get steps of a penalty in the order of a hash table: scores
        are rounded, and those characters all get the lowest.
        """
        pieces = json.loads(learner.to_str())["model"]["vocab"][len(SPECIAL_TOKENS) :]
        lowest = min(score for _, score in pieces)
        scores = {piece: lowest if _is_penalized(piece, score - lowest) else score for piece, score in pieces}
        rounded = [(piece, round(score, _DIGITS)) for piece, score in scores.items()]
        special = [(token, 0.0) for token in SPECIAL_TOKENS]
        return models.Unigram(
            special + sorted(rounded, key=lambda each: (-each[1], each[0])),
            unk_id=UNKNOWN,
            byte_fallback=False,
        )

    def train(self, texts: Iterable[str]) -> None:
        """Learns the pieces.

        Raises:
            ConfigurationError: The vocabulary has no room for the characters of the text.
        """
        try:
            super().train(texts)
        except Exception as error:  # the library raises plain Exception
            if "not large enough" not in str(error):
                raise
            raise ConfigurationError(
                f"tokenizer 'unigram': size: {self._size} is too small for the text's characters; raise it"
            ) from error


def _is_penalized(piece: str, above: float) -> bool:
    """Whether a score lies a whole number of penalties above the lowest, to within rounding."""
    return len(piece) == 1 and abs(above / _PENALTY - round(above / _PENALTY)) < 1e-6
