"""How good each part is of answers with a label and a number."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from plugformer.interfaces import OutputMetric
from plugformer_gallery.multi_task import LABEL_AND_NUMBER


class _PartMetric(OutputMetric):
    accepts = frozenset({LABEL_AND_NUMBER})
    check_examples = (
        ({"label": "good", "number": 1.0}, {"label": "bad", "number": 3.0}),
        ({"label": "bad", "number": -2.0}, {"label": "good", "number": 0.5}),
    )

    def aggregate(self, statistics: Float[ndarray, "examples 1"]) -> float:
        """Returns the mean."""
        return float(statistics.mean())


class LabelAccuracy(_PartMetric):
    """The share of answers with the right label, whatever the number.

    See https://arxiv.org/abs/1901.11504.
    """

    def statistics(
        self, predictions: Sequence[Any], references: Sequence[Sequence[Any]]
    ) -> Float[ndarray, "examples 1"]:
        """Returns 1 or 0 for each example."""
        pairs = zip(predictions, references, strict=True)
        return np.array([[given["label"] == right[0]["label"]] for given, right in pairs], float)


class NumberError(_PartMetric):
    """The mean squared error of the number, whatever the label.

    See https://arxiv.org/abs/1901.11504.
    """

    higher_is_better = False

    def statistics(
        self, predictions: Sequence[Any], references: Sequence[Sequence[Any]]
    ) -> Float[ndarray, "examples 1"]:
        """Returns the squared error of each example."""
        pairs = zip(predictions, references, strict=True)
        return np.array([[(given["number"] - right[0]["number"]) ** 2] for given, right in pairs], float)
