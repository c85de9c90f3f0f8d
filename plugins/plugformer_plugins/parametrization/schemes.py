"""The standard parametrization, and the maximal update parametrization."""

from math import sqrt
from typing import Annotated

from pydantic import Field

from plugformer.interfaces import ParameterSize, Parametrization, Role, Updates


class StandardParametrization(Parametrization):
    """Initial values as the initialization draws them, and one learning rate for all parameters.

    The best learning rate then falls with the width: Tensor Programs V, Yang et al. 2022, figure 1:
    https://arxiv.org/abs/2203.03466.
    """

    def scale(self, size: ParameterSize) -> float:
        """Returns 1."""
        return 1.0

    def rate(self, size: ParameterSize, updates: Updates) -> float:
        """Returns 1."""
        return 1.0


class MaximalUpdate(Parametrization):
    """muP, which keeps the best learning rate of a base model in wider ones.

    At the base width nothing changes. At others an update changes hidden states as much as it does there.

    Tensor Programs V, Yang et al. 2022, table 3 and definition 4.1: https://arxiv.org/abs/2203.03466. With n
    inputs and m outputs of a parameter for each one in the base model, values are divided by sqrt(n), or by n
    if the parameter makes the model's outputs; learning rates are divided by n, and those of SGD multiplied
    by m / n. Attention has 1 / d for 1 / sqrt(d), as a factor on queries. Muon's updates of matrices have a
    spectral norm that grows with sqrt(m / n): A Spectral Condition for Feature Learning, Yang et al. 2023,
    condition 1: https://arxiv.org/abs/2310.17813.

    Args:
        base_width: `model.width` of the base model, at which the learning rate was found.
        base_heads: Its `model.heads`. None: as many as in this model, so that heads grow with the width.
        base_ffn_width: Its `model.ffn_width`. None: the same as in this model.
    """

    def __init__(
        self,
        *,
        base_width: Annotated[int, Field(ge=1, le=2**15)],
        base_heads: Annotated[int | None, Field(ge=1)] = None,
        base_ffn_width: Annotated[int | None, Field(ge=1)] = None,
    ) -> None:
        given = {"width": base_width, "heads": base_heads, "ffn_width": base_ffn_width}
        self.base = {name: size for name, size in given.items() if size is not None}

    def scale(self, size: ParameterSize) -> float:
        """Returns the factor of initial values."""
        return _factor(size) / (size.fan_in if size.role is Role.OUTPUT else sqrt(size.fan_in))

    def rate(self, size: ParameterSize, updates: Updates) -> float:
        """Returns the factor of the learning rate."""
        if updates is Updates.GRADIENT:
            return _factor(size) ** 2 * size.fan_out / size.fan_in
        if updates is Updates.ADAPTIVE:
            return _factor(size) / size.fan_in
        return _factor(size) * sqrt(size.fan_out / size.fan_in / size.longest)


def _factor(size: ParameterSize) -> float:
    """Returns what outputs should be multiplied by, over what they are multiplied by."""
    return 1 / (sqrt(size.head_width) * size.multiplier)
