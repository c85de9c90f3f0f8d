"""F1 of things that are found: how many of them are right, and how many of the right ones are found."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from plugformer.interfaces import OutputMetric


class MicroF1(OutputMetric):
    """2 hits / (found + right), over all examples together; 1 where nothing is to be found nor found."""

    @abstractmethod
    def found(self, answer: Sequence[str]) -> set[Any]:
        """Returns the items that an answer consists of."""

    def statistics(
        self, predictions: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]
    ) -> Float[ndarray, "examples 3"]:
        """Returns the number of hits, of things found, and of right ones."""
        rows = []
        for given, right in zip(predictions, references, strict=True):
            one, other = self.found(given), self.found(right[0])
            rows.append([len(one & other), len(one), len(other)])
        return np.array(rows, float).reshape(-1, 3)

    def aggregate(self, statistics: Float[ndarray, "examples 3"]) -> float:
        """Returns the harmonic mean of precision and recall."""
        hits, found, right = statistics.sum(axis=0)
        return float(2 * hits / (found + right)) if found + right else 1.0
