"""Token accuracy: the share of targets that the model would have chosen, given the right ones before."""

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from plugformer.interfaces import LikelihoodMetric


class TokenAccuracy(LikelihoodMetric):
    """The share of targets, END included, that are the most probable output after the right ones before them.

    It says less than a metric of outputs: a model that answers by itself goes on after its own mistakes.
    Tokens of one example depend on each other, so that its interval resamples examples.
    """

    def statistics(
        self,
        log_probabilities: Float[ndarray, " examples"],
        targets: Int[ndarray, " examples"],
        correct: Int[ndarray, " examples"],
    ) -> Float[ndarray, "examples 2"]:
        """Returns the number of right choices and of targets."""
        return np.stack([correct, targets], axis=1).astype(float)

    def aggregate(self, statistics: Float[ndarray, "examples 2"]) -> float:
        """Returns the share over all targets together."""
        correct, targets = statistics.sum(axis=0)
        return float(correct / targets)
