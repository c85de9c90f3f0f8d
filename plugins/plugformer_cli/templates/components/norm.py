"""Root mean square normalization."""

from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import rms_norm

from plugformer.interfaces import ModelContext, Norm


class NewComponent(Norm):
    """x / sqrt(mean(x^2) + epsilon) * weight, over the last axis.

    Root Mean Square Layer Normalization, Zhang and Sennrich 2019, equation 4:
    https://arxiv.org/abs/1910.07467. The weight is (width,).

    Args:
        epsilon: Added to the mean square before the root.
    """

    def __init__(self, model: ModelContext, *, epsilon: Annotated[float, Field(gt=0)] = 1e-6) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.empty(model.width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the weight to one."""
        nn.init.ones_(self.weight)

    def forward(self, x: Float[Tensor, "*tokens width"]) -> Float[Tensor, "*tokens width"]:
        """Returns `x`, normalized over its last axis."""
        return rms_norm(x, self.weight.shape, self.weight, self.epsilon)
