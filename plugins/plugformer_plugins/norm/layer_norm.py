"""Layer normalization."""

from typing import Annotated

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from plugformer.interfaces import ModelContext, Norm


class LayerNorm(nn.LayerNorm, Norm):
    """(x - mean) / sqrt(variance + epsilon) * weight + bias, over the last axis.

    Layer Normalization, Ba et al. 2016, equation 3: https://arxiv.org/abs/1607.06450. Weight and bias are
    (width,) and start at one and zero.

    Args:
        model: Sizes of the model.
        epsilon: Added to the variance before the root.
        bias: Whether a learned bias is added.
    """

    def __init__(
        self,
        model: ModelContext,
        *,
        epsilon: Annotated[float, Field(gt=0, description="Added to the variance before the root.")] = 1e-5,
        bias: Annotated[bool, Field(description="Add a learned bias after the scale.")] = True,
    ) -> None:
        super().__init__(model.width, eps=epsilon, bias=bias)

    def forward(self, x: Float[Tensor, "*tokens width"]) -> Float[Tensor, "*tokens width"]:
        """Returns `x`, normalized over its last axis."""
        return super().forward(x)
