"""Layer normalization and root mean square normalization."""

from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from plugformer.interfaces import ModelContext, Norm


class LayerNorm(nn.LayerNorm, Norm):
    """Layer normalization; mean zero and variance one over the width, then a learned scale and shift.

    (x - mean) / sqrt(variance + epsilon) * weight + bias, over the last axis.

    Layer Normalization, Ba et al. 2016, equation 3: https://arxiv.org/abs/1607.06450. Weight and bias are
    (width,) and start at one and zero.

    Args:
        model: Sizes of the model.
        epsilon: Added to the variance before the root.
        bias: Whether a learned bias is added.
    """

    def __init__(
        self, model: ModelContext, *, epsilon: Annotated[float, Field(gt=0)] = 1e-5, bias: bool = True
    ) -> None:
        super().__init__(model.width, eps=epsilon, bias=bias)

    def forward(self, x: Float[Tensor, "*tokens width"]) -> Float[Tensor, "*tokens width"]:
        """Returns `x`, normalized over its last axis."""
        if x.dtype == self.weight.dtype:
            return super().forward(x)
        with torch.autocast(x.device.type, enabled=False):  # it would return float32
            weight, bias = (_alike(x, each) for each in (self.weight, self.bias))
            return functional.layer_norm(x, self.normalized_shape, weight, bias, self.eps)


class RMSNorm(nn.RMSNorm, Norm):
    """Root mean square normalization; mean square one over the width, then a learned scale.

    x / sqrt(mean(x^2) + epsilon) * weight, over the last axis: no mean is taken out, no bias added.

    Root Mean Square Layer Normalization, Zhang and Sennrich 2019, equation 4:
    https://arxiv.org/abs/1910.07467. The weight is (width,) and starts at one.

    Args:
        model: Sizes of the model.
        epsilon: Added to the mean square before the root.
    """

    def __init__(self, model: ModelContext, *, epsilon: Annotated[float, Field(gt=0)] = 1e-6) -> None:
        super().__init__(model.width, eps=epsilon)

    def forward(self, x: Float[Tensor, "*tokens width"]) -> Float[Tensor, "*tokens width"]:
        """Returns `x`, normalized over its last axis."""
        if x.dtype == self.weight.dtype:
            return super().forward(x)
        with torch.autocast(x.device.type, enabled=False):  # it would return float32
            return functional.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)


def _alike(x: Tensor, parameter: Tensor | None) -> Tensor | None:
    """Returns a parameter in a format that a layer norm takes: on a CPU any, elsewhere that of `x`."""
    return parameter if parameter is None or x.device.type == "cpu" else parameter.to(x.dtype)
