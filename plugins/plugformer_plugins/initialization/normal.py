"""Normally distributed initial values of one deviation, as GPT-2 has them."""

from typing import Annotated

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from plugformer.interfaces import Initialization, ParameterContext

Deviation = Annotated[float, Field(gt=0, le=10, description="Standard deviation of all matrices.")]


class Normal(Initialization):
    """Every matrix normal with one deviation, biases of linear maps zero; the rest is what its module draws.

    Language Models are Unsupervised Multitask Learners, Radford et al. 2019, section 2.3:
    https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf. The
    last map of each sublayer, which adds to the residual stream, is divided by the square root of the number
    of sublayers that do. The deviation 0.02 is that of GPT, Radford et al. 2018, section 4.1.

    Args:
        deviation: Of all matrices.
        residual: Whether what adds to the residual stream is divided.
    """

    def __init__(
        self,
        *,
        deviation: Deviation = 0.02,
        residual: Annotated[
            bool, Field(description="Divide the last map of each sublayer by the root of their number.")
        ] = True,
    ) -> None:
        self.deviation = deviation
        self.residual = residual

    def draw(self, values: Float[Tensor, "..."], parameter: ParameterContext) -> None:
        """Draws matrices, and sets biases of linear maps to zero."""
        if values.dim() > 1:
            self.fill(values, self.deviation)
            if self.residual and parameter.residual_layers:
                values.div_(parameter.residual_layers**0.5)
        elif isinstance(parameter.module, nn.Linear) and parameter.name == "bias":
            nn.init.zeros_(values)

    def fill(self, values: Float[Tensor, "..."], deviation: float) -> None:
        """Draws a matrix."""
        nn.init.normal_(values, std=deviation)
