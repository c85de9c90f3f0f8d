"""Metrics of the probability of the right answers."""

from math import exp, log
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from plugformer.interfaces import LikelihoodMetric, OutputType
from plugformer_plugins.metric.accuracy import Ratio

Counts = Float[ndarray, " examples"] | Int[ndarray, " examples"]
Pairs = Float[ndarray, "examples 2"]

_LARGEST = 700.0  # nats: e to the power of 710 is more than a float can hold


class Perplexity(Ratio, LikelihoodMetric):
    """The exponential of the mean negative log-likelihood of a target, END included; lower is better.

    It depends on the vocabulary: only models with the same targets compare. From 1 (certain of every target)
    over the number of outputs (a uniform guess) upwards.
    See https://doi.org/10.1121/1.2016299.
    """

    higher_is_better = False

    def statistics(self, log_probabilities: Counts, targets: Counts, correct: Counts) -> Pairs:
        """Returns the negative log-likelihood and the number of targets."""
        return np.stack([-log_probabilities, targets], axis=1)

    def aggregate(self, statistics: Pairs) -> float:
        """Returns the perplexity over all targets together."""
        return exp(min(super().aggregate(statistics), _LARGEST))


class TokenAccuracy(Ratio, LikelihoodMetric):
    """The share of targets, END included, that are the most probable output after the right ones before them.

    It says less than a metric of outputs: a model that answers by itself continues after its own mistakes.
    Tokens of one example depend on each other, so that its interval resamples examples.
    See https://aclanthology.org/P17-4012.
    """

    probabilities = False

    def statistics(self, log_probabilities: Counts, targets: Counts, correct: Counts) -> Pairs:
        """Returns the number of right choices and of targets."""
        return np.stack([correct, targets], axis=1).astype(float)


class BitsPerCharacter(Ratio, LikelihoodMetric):
    """Bits for each character of a text; compares models with different vocabularies.

    The negative logarithm to base 2 of a text's probability, over its characters; lower is better.
    See https://arxiv.org/abs/1308.0850.

    Tokens that are no characters, such as END after a text, count among the bits, not among the characters.
    Where texts are cut into pieces, the characters of a split are shared out among its tokens; those of a
    truncated text among the text's, and only what is left of these counts.
    """

    accepts = frozenset({OutputType.TEXT, OutputType.TOKENS})
    unit: ClassVar[Literal["targets", "characters", "bytes"]] = "characters"
    higher_is_better = False

    def statistics(self, log_probabilities: Counts, targets: Counts, correct: Counts) -> Pairs:
        """Returns the bits and the units of each example."""
        return np.stack([-log_probabilities / log(2), targets], axis=1)


class BitsPerByte(BitsPerCharacter):
    """Bits for each byte of a text in UTF-8; compares models with different vocabularies.

    See https://arxiv.org/abs/2101.00027.
    """

    unit = "bytes"
