"""The share of predictions that equal a reference."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from plugformer.interfaces import OutputMetric


class NewComponent(OutputMetric):
    """The share of predictions that equal one of their references; letter case does not count.

    SQuAD: 100,000+ Questions for Machine Comprehension of Text, Rajpurkar et al. 2016, section 6.1:
    https://arxiv.org/abs/1606.05250.
    """

    def statistics(
        self, predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Float[ndarray, "examples 1"]:
        """Returns 1 for each right prediction, 0 for each wrong one."""
        pairs = zip(predictions, references, strict=True)
        hits = [text.casefold() in map(str.casefold, expected) for text, expected in pairs]
        return np.array(hits, dtype=float)[:, None]

    def aggregate(self, statistics: Float[ndarray, "examples 1"]) -> float:
        """Returns the mean; the interval is the bootstrap of `OutputMetric.interval`."""
        return float(statistics.mean())
