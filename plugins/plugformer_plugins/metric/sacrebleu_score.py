"""What the metrics of sacreBLEU have in common: its counts in each sentence, and its score of their sum."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from sacrebleu.metrics.base import Metric as Scorer

from plugformer.interfaces import OutputMetric


class SacreBLEUScore(OutputMetric):
    """A corpus score between 0 and 100, all counts taken by sacreBLEU.

    Its `corpus_score` adds up the statistics of sentences and computes a score from the sum, in two methods
    that each of its metrics defines. Its own significance tests call them one by one, and so does this class:
    the whole set scores what `corpus_score` says, and a resample costs no counting.

    Args:
        scorer: The metric of sacreBLEU.
    """

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer

    def statistics(
        self, predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Float[ndarray, "examples statistics"]:
        """Returns sacreBLEU's counts for each sentence."""
        return np.array(
            self.scorer._extract_corpus_statistics(predictions, _streams(references)), dtype=float
        )

    def aggregate(self, statistics: Float[ndarray, "examples statistics"]) -> float:
        """Returns the score of the whole corpus, not a mean over sentences."""
        total = statistics.sum(axis=0).astype(int).tolist()
        return float(self.scorer._compute_score_from_stats(total).score)

    def signature(self, references: Sequence[Sequence[str]]) -> str:
        """Returns sacreBLEU's signature: number of references, options and version."""
        numbers = {len(answers): [""] * len(answers) for answers in references}
        self.scorer.corpus_score([""] * len(numbers), _streams(list(numbers.values())))
        return str(self.scorer.get_signature())


def _streams(references: Sequence[Sequence[str]]) -> list[tuple[Any, ...]]:
    """Returns every example's first reference, every example's second, ..., None where there is none."""
    return list(zip_longest(*references))
