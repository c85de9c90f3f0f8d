"""Gated linear units: one linear map of the input decides how much of another passes."""

from abc import abstractmethod
from typing import Annotated

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from plugformer.interfaces import FeedForward, ModelContext


class GatedLinearUnit(FeedForward):
    """(f(x W_gate) * (x W_up)) W_down, with biases if wanted.

    GLU Variants Improve Transformer, Shazeer 2020, equations 5 and 6: https://arxiv.org/abs/2002.05202.
    W_gate and W_up are (width, ffn_width), W_down is (ffn_width, width). The feed-forward width is taken as
    given: with three matrices in place of two, that is half as many parameters again as a position-wise
    network of the same width. For equal parameters set `model.ffn_width` to two thirds, as the paper does.

    Args:
        model: Sizes of the model; the hidden layer has exactly `model.ffn_width` units.
        bias: Whether the maps have biases; the paper has none.
    """

    def __init__(
        self,
        model: ModelContext,
        *,
        bias: Annotated[bool, Field(description="Whether the maps have biases.")] = False,
    ) -> None:
        super().__init__()
        self.gate = nn.Linear(model.width, model.ffn_width, bias=bias)
        self.up = nn.Linear(model.width, model.ffn_width, bias=bias)
        self.down = nn.Linear(model.ffn_width, model.width, bias=bias)

    @abstractmethod
    def activation(self, gate: Float[Tensor, "tokens hidden"]) -> Float[Tensor, "tokens hidden"]:
        """Returns f of every gate."""

    def forward(self, x: Float[Tensor, "tokens width"]) -> Float[Tensor, "tokens width"]:
        """Returns the network's output at each token."""
        output: Tensor = self.down(self.activation(self.gate(x)) * self.up(x))
        return output


class SwiGLU(GatedLinearUnit):
    """The gate is Swish with beta 1, also called SiLU: f(g) = g sigmoid(g)."""

    def activation(self, gate: Float[Tensor, "tokens hidden"]) -> Float[Tensor, "tokens hidden"]:
        """Returns g sigmoid(g)."""
        return functional.silu(gate)


class GEGLU(GatedLinearUnit):
    """The gate is the exact GELU: f(g) = g Phi(g) with the normal distribution function Phi."""

    def activation(self, gate: Float[Tensor, "tokens hidden"]) -> Float[Tensor, "tokens hidden"]:
        """Returns g Phi(g)."""
        return functional.gelu(gate)


class ReGLU(GatedLinearUnit):
    """The gate is a rectified linear unit: f(g) = max(0, g)."""

    def activation(self, gate: Float[Tensor, "tokens hidden"]) -> Float[Tensor, "tokens hidden"]:
        """Returns max(0, g)."""
        return functional.relu(gate)
