"""The share of outputs that equal one of their references, letter case aside."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from plugformer.interfaces import OutputMetric


class NewComponent(OutputMetric):
    """The share of predictions that equal one of their references.

    SQuAD: 100,000+ Questions for Machine Comprehension of Text, Rajpurkar et al. 2016, section 6.1:
    https://arxiv.org/abs/1606.05250; articles and punctuation count here.

    Intervals come from the statistics of single examples, by the bootstrap of `OutputMetric.interval`.

    Args:
        ignore_case: Whether "Paris" and "paris" are the same.
    """

    def __init__(
        self,
        *,
        ignore_case: bool = True,
    ) -> None:
        self.ignore_case = ignore_case

    def statistics(
        self, predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Float[ndarray, "examples 1"]:
        """Returns 1 for each example that is right, 0 for each that is wrong."""
        pairs = zip(predictions, references, strict=True)
        hits = [self._folded(prediction) in map(self._folded, references) for prediction, references in pairs]
        return np.array(hits, dtype=float)[:, None]

    def aggregate(self, statistics: Float[ndarray, "examples 1"]) -> float:
        """Returns the share of examples that are right."""
        return float(statistics.mean())

    def _folded(self, text: str) -> str:
        return text.casefold() if self.ignore_case else text
