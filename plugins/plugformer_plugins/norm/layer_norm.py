"""Layer normalization."""

from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from plugformer.interfaces import ModelContext, Norm


class LayerNorm(Norm):
    """(x - mean) / sqrt(variance + epsilon) * weight + bias, over the last axis.

    Layer Normalization, Ba et al. 2016, equation 3: https://arxiv.org/abs/1607.06450. Weight and bias are
    (width,) and start at one and zero.

    Args:
        model: Sizes of the model.
        epsilon: Added to the variance before the root.
        bias: Whether a learned bias is added.
    """

    bias: nn.Parameter | None

    def __init__(
        self,
        model: ModelContext,
        *,
        epsilon: Annotated[float, Field(gt=0, description="Added to the variance before the root.")] = 1e-5,
        bias: Annotated[bool, Field(description="Add a learned bias after the scale.")] = True,
    ) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.empty(model.width))
        self.register_parameter("bias", nn.Parameter(torch.empty(model.width)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets weight one and bias zero."""
        nn.init.ones_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Float[Tensor, "*tokens width"]) -> Float[Tensor, "*tokens width"]:
        """Returns `x`, normalized over its last axis."""
        return functional.layer_norm(x, self.weight.shape, self.weight, self.bias, self.epsilon)
