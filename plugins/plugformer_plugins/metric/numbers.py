"""What metrics of numbers have in common."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from plugformer.interfaces import OutputMetric, OutputType


class NumberMetric(OutputMetric):
    """A metric of predicted numbers beside the right ones."""

    accepts = frozenset({OutputType.NUMBER})

    def statistics(
        self, predictions: Sequence[float], references: Sequence[Sequence[float]]
    ) -> Float[ndarray, "examples 2"]:
        """Returns each predicted number and the right one."""
        return np.array(
            [[given, right[0]] for given, right in zip(predictions, references, strict=True)], float
        ).reshape(-1, 2)
