"""Normally distributed matrices, scaled by their number of inputs."""

from typing import Annotated

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from plugformer.interfaces import Initialization


class NewComponent(Initialization):
    """Draws matrices with the standard deviation gain / sqrt(inputs), and keeps other values.

    Delving Deep into Rectifiers, He et al. 2015, section 2.2: https://arxiv.org/abs/1502.01852.

    Args:
        gain: Standard deviation of the outputs of a map whose inputs have the standard deviation 1.
    """

    def __init__(self, *, gain: Annotated[float, Field(gt=0, le=10)] = 1.0) -> None:
        self.gain = gain

    def draw(self, values: Float[Tensor, "..."], path: str, module: nn.Module, residual_layers: int) -> None:
        """Draws a matrix with torch's generator, which has a seed for each parameter."""
        if values.dim() > 1:
            nn.init.normal_(values, std=self.gain * values.shape[-1] ** -0.5)
