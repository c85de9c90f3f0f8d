"""Root mean square normalization."""

from typing import Annotated

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from plugformer.interfaces import ModelContext, Norm


class RMSNorm(nn.RMSNorm, Norm):
    """x / sqrt(mean(x^2) + epsilon) * weight, over the last axis: no mean is taken out, no bias added.

    Root Mean Square Layer Normalization, Zhang and Sennrich 2019, equation 4:
    https://arxiv.org/abs/1910.07467. The weight is (width,) and starts at one.

    Args:
        model: Sizes of the model.
        epsilon: Added to the mean square before the root.
    """

    def __init__(
        self,
        model: ModelContext,
        *,
        epsilon: Annotated[
            float, Field(gt=0, description="Added to the mean square before the root.")
        ] = 1e-6,
    ) -> None:
        super().__init__(model.width, eps=epsilon)

    def forward(self, x: Float[Tensor, "*tokens width"]) -> Float[Tensor, "*tokens width"]:
        """Returns `x`, normalized over its last axis."""
        return super().forward(x)
