"""The position-wise network with rectified linear units."""

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from plugformer_plugins.feed_forward.position_wise import PositionWise


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
