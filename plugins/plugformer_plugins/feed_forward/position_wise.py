"""The position-wise network of the original transformer, for any activation."""

from abc import abstractmethod
from typing import Annotated

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from plugformer.interfaces import FeedForward, ModelContext

Bias = Annotated[bool, Field(description="Add a learned bias in each linear map.")]


class PositionWise(FeedForward):
    """Two linear maps with an activation between: f(x W_up + b_up) W_down + b_down.

    Attention Is All You Need, Vaswani et al. 2017, section 3.3: https://arxiv.org/abs/1706.03762. W_up is
    (width, ffn_width) and W_down (ffn_width, width).

    Args:
        model: Sizes of the model; the hidden layer has exactly `model.ffn_width` units.
        bias: Whether the maps have biases.
    """

    def __init__(self, model: ModelContext, *, bias: Bias = True) -> None:
        super().__init__()
        self.up = nn.Linear(model.width, model.ffn_width, bias=bias)
        self.down = nn.Linear(model.ffn_width, model.width, bias=bias)

    @abstractmethod
    def activation(self, hidden: Float[Tensor, "tokens hidden"]) -> Float[Tensor, "tokens hidden"]:
        """Returns f of every hidden unit."""

    def forward(self, x: Float[Tensor, "tokens width"]) -> Float[Tensor, "tokens width"]:
        """Returns the network's output at each token."""
        output: Tensor = self.down(self.activation(self.up(x)))
        return output
