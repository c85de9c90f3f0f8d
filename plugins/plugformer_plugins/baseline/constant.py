"""Baselines that give the same answer to every question."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from plugformer.interfaces import Example, OutputBaseline, OutputType, Prediction


class ConstantAnswer(OutputBaseline):
    """Gives the same answer to every question; without a name in the manifest."""

    output: Any

    def answer(
        self, questions: Sequence[Example], candidates: Sequence[Any], n_best: int
    ) -> list[Prediction]:
        """Returns the same answer to each question."""
        return [Prediction(self.output)] * len(questions)


class Majority(ConstantAnswer):
    """The most frequent label; of several labels those that half of the training examples have, at least one.

    Holte 1993, https://doi.org/10.1023/A:1022631118932, compares simple rules with its accuracy.
    """

    accepts = frozenset({OutputType.LABEL, OutputType.LABELS})

    def fit(self, questions: Sequence[Example], outputs: Sequence[Any]) -> None:
        """Counts labels."""
        if isinstance(outputs[0], str):
            self.output = Counter(outputs).most_common(1)[0][0]
            return
        counts = Counter(chain.from_iterable(outputs)).most_common()
        half = [label for label, count in counts if 2 * count >= len(outputs)]
        self.output = half or [label for label, _ in counts[:1]]


class Mean(ConstantAnswer):
    """The mean of the training examples' numbers.

    Of all constants it has the smallest squared error:
    https://en.wikipedia.org/wiki/Mean_squared_error.
    """

    accepts = frozenset({OutputType.NUMBER})

    def fit(self, questions: Sequence[Example], outputs: Sequence[Any]) -> None:
        """Computes the mean."""
        self.output = float(np.mean(outputs))
