"""Tag accuracy: the share of words with the right tag."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from plugformer.interfaces import OutputMetric, OutputType


class TagAccuracy(OutputMetric):
    """The share of words whose tag is the right one; its interval resamples whole texts."""

    accepts = frozenset({OutputType.TAGS})

    def statistics(
        self, predictions: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]
    ) -> Float[ndarray, "examples 2"]:
        """Returns the number of right tags and of words."""
        pairs = [(given, right[0]) for given, right in zip(predictions, references, strict=True)]
        return np.array(
            [[sum(map(str.__eq__, given, right)), max(len(given), len(right))] for given, right in pairs],
            float,
        ).reshape(-1, 2)

    def aggregate(self, statistics: Float[ndarray, "examples 2"]) -> float:
        """Returns the share over all words together."""
        right, words = statistics.sum(axis=0)
        return float(right / max(words, 1.0))
