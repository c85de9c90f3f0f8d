"""N-grams of tokens."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from pydantic import Field

from plugformer.interfaces import LikelihoodBaseline

Sequences = Sequence[Int[ndarray, " length"]]


class Counts(NamedTuple):
    """The n-grams of one length: a number for each, context times vocabulary plus token, sorted.

    `total` and `different` say how many tokens follow each context, and how many different ones. The place of
    an n-gram is its number as a context of longer ones.
    """

    ngrams: Int[ndarray, " ngrams"]
    counts: Float[ndarray, " ngrams"]
    total: Float[ndarray, " contexts"]
    different: Float[ndarray, " contexts"]

    def places(self, keys: Int[ndarray, " tokens"]) -> Int[ndarray, " tokens"]:
        """Returns the places of n-grams, -1 for those that were not counted."""
        found = np.searchsorted(self.ngrams, keys).clip(max=len(self.ngrams) - 1)
        return np.where(self.ngrams[found] == keys, found, -1)


class NGrams(LikelihoodBaseline):
    """Counted n-grams of tokens, interpolated as Witten and Bell do.

    After a context that n different tokens have followed, N times in all, a token that did so c times has the
    probability (c + n p) / (N + n), where p is that after the context without its first token; at the end a
    uniform guess. Chen and Goodman 1999, section 2.5, https://doi.org/10.1006/csla.1999.0128.

    Args:
        order: Length of the longest n-grams, in tokens.
    """

    def __init__(
        self, *, order: Annotated[int, Field(ge=1, le=10, description="Length of the longest n-grams.")] = 6
    ) -> None:
        self._order = order

    def fit(self, sequences: Sequences, vocabulary: int) -> None:
        """Counts n-grams of each length; a given token is a context and counts as none."""
        self._vocabulary, self._levels = vocabulary, list[Counts]()
        tokens, starts = _joined(sequences)
        predicted, contexts = np.ones(len(tokens)), np.zeros(len(tokens), dtype=np.int64)
        predicted[starts] = 0
        for _ in range(self._order):
            known = contexts >= 0
            ngrams, numbers = np.unique(contexts[known] * vocabulary + tokens[known], return_inverse=True)
            counts, owners = np.bincount(numbers, predicted[known]), ngrams // vocabulary
            level = Counts(ngrams, counts, np.bincount(owners, counts), np.bincount(owners, counts > 0))
            self._levels.append(level)
            contexts = self._longer(level, contexts, tokens, starts)

    def log_probabilities(self, sequences: Sequences) -> list[Float[ndarray, " predicted"]]:
        """Returns the logarithms of interpolated probabilities."""
        tokens, starts = _joined(sequences)
        contexts = np.zeros(len(tokens), dtype=np.int64)
        likely = np.full(len(tokens), 1 / self._vocabulary)
        for level in self._levels:
            known = np.flatnonzero((contexts >= 0) & (contexts < len(level.total)))
            known = known[level.total[contexts[known]] > 0]  # something has followed
            owners = contexts[known]
            places = level.places(owners * self._vocabulary + tokens[known])
            counts = np.where(places >= 0, level.counts[places], 0)
            total, different = level.total[owners], level.different[owners]
            likely[known] = (counts + different * likely[known]) / (total + different)
            contexts = self._longer(level, contexts, tokens, starts)
        return [row[1:] for row in np.split(np.log(likely), starts[1:])]

    def _longer(self, level: Counts, contexts: ndarray, tokens: ndarray, starts: ndarray) -> ndarray:
        """Returns the contexts of one more token; -1 where there are fewer tokens, or it was not counted."""
        places = np.where(contexts >= 0, level.places(contexts * self._vocabulary + tokens), -1)
        longer = np.concatenate([[-1], places[:-1]])
        longer[starts] = -1
        return longer


def _joined(sequences: Sequences) -> tuple[Int[ndarray, " tokens"], Int[ndarray, " sequences"]]:
    """Returns all tokens in one array, and where each sequence begins."""
    lengths = [len(sequence) for sequence in sequences]
    return np.concatenate(sequences).astype(np.int64), np.cumsum([0, *lengths[:-1]])
