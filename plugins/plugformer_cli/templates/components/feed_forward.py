"""Two linear maps with a rectified linear unit between."""

from jaxtyping import Float
from torch import Tensor, nn

from plugformer.interfaces import Context, FeedForward, ModelContext


class NewComponent(FeedForward):
    """max(0, x W_up + b_up) W_down + b_down.

    Attention Is All You Need, Vaswani et al. 2017, equation 2: https://arxiv.org/abs/1706.03762.

    Args:
        model: Sizes of the model; the hidden layer has `model.ffn_width` units.
        bias: Whether the maps have biases.
    """

    def __init__(self, model: ModelContext, *, bias: bool = True) -> None:
        super().__init__()
        self.up = nn.Linear(model.width, model.ffn_width, bias=bias)
        self.down = nn.Linear(model.ffn_width, model.width, bias=bias)

    def forward(
        self, x: Float[Tensor, "batch length width"], context: Context
    ) -> Float[Tensor, "batch length width"]:
        """Returns the network's output for each token; `context` tells which are padding."""
        output: Tensor = self.down(self.up(x).relu())
        return output
