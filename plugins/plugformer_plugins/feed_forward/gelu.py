"""The position-wise network with Gaussian error linear units."""

from typing import Annotated, Literal

from jaxtyping import Float
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from plugformer.interfaces import ModelContext
from plugformer_plugins.feed_forward.position_wise import Bias, PositionWise


class GELU(PositionWise):
    """GELU(x W_up + b_up) W_down + b_down; GELU(h) = h Phi(h), Phi the normal distribution function.

    Gaussian Error Linear Units, Hendrycks and Gimpel 2016, section 2: https://arxiv.org/abs/1606.08415.

    Args:
        model: Sizes of the model; the hidden layer has exactly `model.ffn_width` units.
        approximate: "none" for the exact function, "tanh" for the paper's approximation (as in GPT-2).
        bias: Whether the maps have biases.
    """

    def __init__(
        self,
        model: ModelContext,
        *,
        approximate: Annotated[
            Literal["none", "tanh"],
            Field(description="The exact function (none), or the paper's approximation by a tanh."),
        ] = "none",
        bias: Bias = True,
    ) -> None:
        super().__init__(model, bias=bias)
        self.approximate = approximate

    def activation(self, hidden: Float[Tensor, "tokens hidden"]) -> Float[Tensor, "tokens hidden"]:
        """Returns h Phi(h)."""
        return functional.gelu(hidden, approximate=self.approximate)
