"""Learning rates that fall with the number of inputs of each matrix."""

from math import sqrt
from typing import Annotated

from pydantic import Field

from plugformer.interfaces import ParameterSize, Parametrization, Updates


class NewComponent(Parametrization):
    """Initial values and learning rates that keep the size of activations at any width, for Adam.

    Tensor Programs V, Yang et al. 2022, table 3: https://arxiv.org/abs/2203.03466, without its smaller
    outputs.

    Args:
        base_width: `model.width` of the base model, at which the learning rate was found.
    """

    def __init__(self, *, base_width: Annotated[int, Field(ge=1)] = 32) -> None:
        self.base = {"width": base_width}

    def scale(self, size: ParameterSize) -> float:
        """Returns the factor of initial values, so that outputs are as large as in the base model."""
        return 1 / (size.multiplier * sqrt(size.fan_in))

    def rate(self, size: ParameterSize, updates: Updates) -> float:
        """Returns the factor of the learning rate, so that updates change outputs as much."""
        return 1 / (size.multiplier * size.fan_in)
