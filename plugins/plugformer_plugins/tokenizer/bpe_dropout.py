"""BPE dropout: a word is cut into other subwords in every epoch of a training."""

import json
from collections.abc import Sequence
from copy import copy
from functools import lru_cache
from itertools import pairwise
from typing import Annotated

import numpy as np
from pydantic import Field
from tokenizers import Tokenizer

from plugformer.interfaces import SPECIAL_TOKENS, UNKNOWN
from plugformer_plugins.tokenizer.subwords import BPE, Frequency, Lowercase, Normalization


class BPEDropout(BPE):
    """Byte-level byte-pair encoding that leaves out merges at random while a model is trained.

    BPE-Dropout, Provilkov et al. 2020, algorithm 1: https://arxiv.org/abs/1910.13267. What is evaluated and
    predicted is cut as without dropout. The library's own dropout would draw from a generator without a seed.

    Args:
        size: Number of tokens, the special ones and the bytes included; fewer where the text has no more.
        dropout: Share of the merges that are left out wherever they could be made.
        min_frequency: How often a pair must occur to be merged.
    """

    def __init__(
        self,
        *,
        size: Annotated[int, Field(ge=256 + len(SPECIAL_TOKENS), le=2**20)] = 8000,
        dropout: Annotated[float, Field(ge=0, le=1)] = 0.1,
        min_frequency: Frequency = 2,
        normalization: Normalization = "none",
        lowercase: Lowercase = False,
    ) -> None:
        self.dropout = dropout
        self.generator: np.random.Generator | None = None
        super().__init__(
            size=size, min_frequency=min_frequency, normalization=normalization, lowercase=lowercase
        )

    def sampling(self, generator: np.random.Generator) -> "BPEDropout":
        """Returns a tokenizer with the same vocabulary that drops merges."""
        drawing = copy(self)
        drawing.generator = generator
        return drawing

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns token numbers, of drawn subwords if this tokenizer draws."""
        if self.generator is None:
            return super().encode(texts)
        backend = self._tokenizer
        normalized = [backend.normalizer.normalize_str(text) for text in texts]
        words = [backend.pre_tokenizer.pre_tokenize_str(text) for text in normalized]
        return [
            [
                backend.token_to_id(piece) or UNKNOWN
                for word, _ in row
                for piece in self.cut(word, self.generator)
            ]
            for row in words
        ]

    def cut(self, word: str, generator: np.random.Generator) -> tuple[str, ...]:
        """Returns the subwords that are left when no merge of two neighbors is possible and kept."""
        pieces = tuple(word)
        while True:
            places = _merges(self._tokenizer, pieces)
            place = next((place for place in places if generator.random() >= self.dropout), None)
            if place is None:
                return pieces
            pieces = (*pieces[:place], pieces[place] + pieces[place + 1], *pieces[place + 2 :])


@lru_cache(maxsize=2**16)
def _merges(tokenizer: Tokenizer, pieces: tuple[str, ...]) -> list[int]:
    """Returns where neighbors can be merged, those first that were merged first in training."""
    ranks = _ranks(tokenizer)
    return sorted(
        (place for place, pair in enumerate(pairwise(pieces)) if pair in ranks),
        key=lambda place: ranks[pieces[place], pieces[place + 1]],
    )


@lru_cache(maxsize=2)
def _ranks(tokenizer: Tokenizer) -> dict[tuple[str, str], int]:
    """Returns when each pair of subwords was merged in training, the most frequent ones first."""
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return {(first, second): rank for rank, (first, second) in enumerate(merges)}
