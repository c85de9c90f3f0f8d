"""Every matrix normal, with a deviation by its number of inputs."""

from typing import Annotated

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from plugformer.interfaces import Initialization, ParameterContext


class NewComponent(Initialization):
    """Every matrix normal with the deviation gain / sqrt(inputs); the rest is what its module draws.

    Delving Deep into Rectifiers, He et al. 2015, section 2.2: https://arxiv.org/abs/1502.01852; the gain is
    the root of two there.

    Args:
        gain: Deviation of what a map makes of inputs of deviation one.
    """

    def __init__(
        self,
        *,
        gain: Annotated[float, Field(gt=0, le=10)] = 1.0,
    ) -> None:
        self.gain = gain

    def draw(
        self,
        values: Float[Tensor, "..."],
        parameter: ParameterContext,  # noqa: ARG002 (for schemes that go by where a parameter stands)
    ) -> None:
        """Draws matrices from torch's generator, which is seeded for each parameter."""
        if values.dim() > 1:
            nn.init.normal_(values, std=self.gain * values.shape[-1] ** -0.5)
