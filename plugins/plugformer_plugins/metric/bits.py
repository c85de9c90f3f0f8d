"""Bits for each character or byte of a text: what tells language models with different vocabularies apart."""

from math import log
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from plugformer.interfaces import LikelihoodMetric, OutputType


class BitsPerCharacter(LikelihoodMetric):
    """The negative logarithm to base 2 of a text's probability, over its characters; lower is better.

    Tokens that are no characters, such as END behind a text, count among the bits, not among the characters.
    Where texts are cut into pieces, the characters of a split are shared out among its tokens; those of a
    truncated text among the text's, and only what is left of these counts.
    """

    accepts = frozenset({OutputType.TEXT, OutputType.TOKENS})
    unit: ClassVar[Literal["targets", "characters", "bytes"]] = "characters"
    higher_is_better = False

    def statistics(
        self,
        log_probabilities: Float[ndarray, " examples"],
        targets: Float[ndarray, " examples"] | Int[ndarray, " examples"],
        correct: Int[ndarray, " examples"],
    ) -> Float[ndarray, "examples 2"]:
        """Returns the bits and the units of each example."""
        return np.stack([-log_probabilities / log(2), targets], axis=1)

    def aggregate(self, statistics: Float[ndarray, "examples 2"]) -> float:
        """Returns the bits over all units together."""
        bits, units = statistics.sum(axis=0)
        return float(bits / units)


class BitsPerByte(BitsPerCharacter):
    """The same over the bytes of a text in UTF-8."""

    unit = "bytes"
