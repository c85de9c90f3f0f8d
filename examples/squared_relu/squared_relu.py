"""Squared ReLU, the feed-forward network of Primer (So et al. 2021): https://arxiv.org/abs/2109.08668."""

from jaxtyping import Float
from torch import Tensor, nn

from plugformer.interfaces import Context, FeedForward, ModelContext


class SquaredReLU(FeedForward):
    """Two linear maps with a squared ReLU between: https://arxiv.org/abs/2109.08668."""

    def __init__(self, model: ModelContext, *, bias: bool = True) -> None:
        super().__init__()
        self.up = nn.Linear(model.width, model.ffn_width, bias=bias)
        self.down = nn.Linear(model.ffn_width, model.width, bias=bias)

    def forward(
        self, x: Float[Tensor, "batch length width"], context: Context
    ) -> Float[Tensor, "batch length width"]:
        """Returns the network's output at each token."""
        output: Tensor = self.down(self.up(x).relu().square())
        return output
