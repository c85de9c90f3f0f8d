"""The position-wise networks of the original transformer."""

from abc import abstractmethod
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from plugformer.interfaces import FeedForward, ModelContext


class PositionWise(FeedForward):
    """Two linear maps with an activation between: f(x W_up + b_up) W_down + b_down.

    Attention Is All You Need, Vaswani et al. 2017, section 3.3: https://arxiv.org/abs/1706.03762. W_up is
    (width, ffn_width) and W_down (ffn_width, width).

    Args:
        model: Sizes of the model; the hidden layer has exactly `model.ffn_width` units.
        bias: Whether the maps have biases.
    """

    def __init__(self, model: ModelContext, *, bias: bool = True) -> None:
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


class ReLU(PositionWise):
    """max(0, x W_up + b_up) W_down + b_down.

    Attention Is All You Need, Vaswani et al. 2017, equation 2: https://arxiv.org/abs/1706.03762.

    Args:
        model: Sizes of the model; the hidden layer has exactly `model.ffn_width` units.
        bias: Whether the maps have biases.
    """

    def activation(self, hidden: Float[Tensor, "tokens hidden"]) -> Float[Tensor, "tokens hidden"]:
        """Returns max(0, h)."""
        return functional.relu(hidden, inplace=True)  # nothing else reads it


class GELU(PositionWise):
    """GELU(x W_up + b_up) W_down + b_down; GELU(h) = h Phi(h), Phi the normal distribution function.

    Gaussian Error Linear Units, Hendrycks and Gimpel 2016, section 2: https://arxiv.org/abs/1606.08415.

    Args:
        model: Sizes of the model; the hidden layer has exactly `model.ffn_width` units.
        approximate: "none" for the exact function, "tanh" for the paper's approximation (as in GPT-2).
        bias: Whether the maps have biases.
    """

    def __init__(
        self, model: ModelContext, *, approximate: Literal["none", "tanh"] = "none", bias: bool = True
    ) -> None:
        super().__init__(model, bias=bias)
        self.approximate = approximate

    def activation(self, hidden: Float[Tensor, "tokens hidden"]) -> Float[Tensor, "tokens hidden"]:
        """Returns h Phi(h)."""
        return functional.gelu(hidden, approximate=self.approximate)
