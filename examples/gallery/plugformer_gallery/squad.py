"""The metrics of SQuAD: answers compared without case, punctuation and articles."""

import re
import string
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from plugformer.interfaces import OutputMetric, OutputType


class SQuADMetric(OutputMetric):
    """The mean over examples of a score, that of the reference which fits best.

    Rajpurkar et al. 2016, section 6.1: https://arxiv.org/abs/1606.05250; normalized as in the official
    script, evaluate-v1.1.py, whose figures are these times 100.
    """

    accepts = frozenset({OutputType.TEXT})

    @abstractmethod
    def score(self, prediction: Sequence[str], reference: Sequence[str]) -> float:
        """Returns how good the words of an answer are, from 0 to 1."""

    def statistics(
        self, predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Float[ndarray, "examples 1"]:
        """Returns each example's score."""
        pairs = zip(predictions, references, strict=True)
        best = [max(self.score(_words(given), _words(each)) for each in right) for given, right in pairs]
        return np.array(best, float).reshape(-1, 1)

    def aggregate(self, statistics: Float[ndarray, "examples 1"]) -> float:
        """Returns the mean."""
        return float(statistics.mean())


class SQuADExactMatch(SQuADMetric):
    """The share of answers whose words are those of a reference.

    See https://arxiv.org/abs/1606.05250.
    """

    def score(self, prediction: Sequence[str], reference: Sequence[str]) -> float:
        """Returns 1 for the same words."""
        return float(prediction == reference)


class SQuADF1(SQuADMetric):
    """The mean F1 of the words of answers.

    See https://arxiv.org/abs/1606.05250.
    """

    def score(self, prediction: Sequence[str], reference: Sequence[str]) -> float:
        """Returns the harmonic mean of precision and recall, words counted as often as they occur."""
        hits = sum((Counter(prediction) & Counter(reference)).values())
        return 2 * hits / max(len(prediction) + len(reference), 1)


def _words(answer: str) -> list[str]:
    kept = "".join(each for each in answer.lower() if each not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", kept).split()
