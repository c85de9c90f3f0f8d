"""F1 of labels, and of anything that answers consist of."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from plugformer.interfaces import OutputMetric, OutputType


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


class LabelF1(MicroF1):
    """Precision and recall of the labels of all examples together, in their harmonic mean."""

    accepts = frozenset({OutputType.LABELS})

    def found(self, answer: Sequence[str]) -> set[str]:
        """Returns the labels."""
        return set(answer)


class MacroF1(OutputMetric):
    """The mean over classes of the harmonic mean of precision and recall.

    Classes are those that occur among predictions or references; one that is never predicted right scores 0.
    It is the average of F-scores, not the F-score of averages; Opitz and Burst (2019) tell the two apart,
    https://arxiv.org/abs/1911.03347.
    """

    def statistics(
        self, predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Float[ndarray, "examples 2"]:
        """Returns the number of the predicted class and that of the right one."""
        pairs = zip(predictions, references, strict=True)
        right = [each if each in answers else answers[0] for each, answers in pairs]
        numbers = {name: number for number, name in enumerate(sorted({*predictions, *right}))}
        return np.array(
            [[numbers[name] for name in pair] for pair in zip(predictions, right, strict=True)], float
        )

    def aggregate(self, statistics: Float[ndarray, "examples 2"]) -> float:
        """Returns the mean F1 of the classes that occur."""
        predicted, right = statistics.astype(int).T
        classes = int(statistics.max()) + 1
        hits = np.bincount(right[predicted == right], minlength=classes)
        # F1 is 2 hits / (predicted + right), precision and recall put into their harmonic mean.
        occurrences = np.bincount(predicted, minlength=classes) + np.bincount(right, minlength=classes)
        occurring = occurrences > 0
        return float((2 * hits[occurring] / occurrences[occurring]).mean())
