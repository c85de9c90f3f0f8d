"""Byte-level byte-pair encoding."""

from typing import Annotated

from pydantic import Field
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from plugformer.interfaces import SPECIAL_TOKENS
from plugformer_blocks import FastTokenizer
from plugformer_plugins.tokenizer.cleaning import Normalization, cleaning


class BPE(FastTokenizer):
    """Starts from the 256 bytes and merges the most frequent pair until the vocabulary is full.

    Sennrich et al. (2016), algorithm 1, https://arxiv.org/abs/1508.07909; on bytes as in Radford et al.
    (2019), section 2.2. Nothing is unknown; lossless without normalization and lower-casing.

    Args:
        size: Number of tokens, the special ones and the bytes included; fewer where the text has no more.
        min_frequency: How often a pair must occur to be merged.
        normalization: Unicode normal form of the text.
        lowercase: Whether text is lower-cased.
    """

    def __init__(
        self,
        *,
        size: Annotated[int, Field(ge=256 + len(SPECIAL_TOKENS), le=2**20)] = 8000,
        min_frequency: Annotated[int, Field(ge=1)] = 2,
        normalization: Normalization = "none",
        lowercase: bool = False,
    ) -> None:
        self._size = size
        self._min_frequency = min_frequency
        self._cleaning = cleaning(normalization, lowercase=lowercase)
        super().__init__()

    def pipeline(self) -> Tokenizer:
        """Returns a BPE model over bytes, words and their leading space kept together."""
        tokenizer = Tokenizer(models.BPE())
        tokenizer.normalizer = self._cleaning
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        return tokenizer

    def trainer(self) -> trainers.Trainer:
        """Returns a trainer that breaks ties by token number."""
        return trainers.BpeTrainer(
            vocab_size=self._size,
            min_frequency=self._min_frequency,
            special_tokens=list(SPECIAL_TOKENS),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
