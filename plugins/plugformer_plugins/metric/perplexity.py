"""Perplexity: how many equally probable tokens the model hesitates between."""

from math import exp

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from plugformer.interfaces import LikelihoodMetric

_LARGEST = 700.0  # nats: e to the power of 710 is more than a float can hold


class Perplexity(LikelihoodMetric):
    """The exponential of the mean negative log-likelihood of a target, END included; lower is better.

    It depends on the vocabulary: only models with the same targets compare. From 1 (certain of every target)
    over the number of outputs (a uniform guess) upwards.
    """

    higher_is_better = False

    def statistics(
        self,
        log_probabilities: Float[ndarray, " examples"],
        targets: Int[ndarray, " examples"],
        correct: Int[ndarray, " examples"],
    ) -> Float[ndarray, "examples 2"]:
        """Returns the negative log-likelihood and the number of targets."""
        return np.stack([-log_probabilities, targets], axis=1)

    def aggregate(self, statistics: Float[ndarray, "examples 2"]) -> float:
        """Returns the perplexity over all targets together."""
        nats, targets = statistics.sum(axis=0)
        return exp(min(nats / targets, _LARGEST))
