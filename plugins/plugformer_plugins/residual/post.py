"""Post-norm: the stream is normalized after each sublayer's output has been added to it."""

from collections.abc import Mapping

from jaxtyping import Float
from torch import Tensor, nn

from plugformer.interfaces import Residual, ResidualContext, Sublayer


class PostNorm(Residual):
    """norm(x + f(x)) for each sublayer f; there is no norm above the last layer.

    Attention Is All You Need, Vaswani et al. 2017, section 3.1: https://arxiv.org/abs/1706.03762.

    Args:
        model: Names the sublayers and makes their norms.
    """

    final_norm = False

    def __init__(self, model: ResidualContext) -> None:
        super().__init__()
        self.norms = nn.ModuleDict({name: model.norm() for name in model.sublayers})

    def forward(
        self, x: Float[Tensor, "batch length width"], sublayers: Mapping[str, Sublayer]
    ) -> Float[Tensor, "batch length width"]:
        """Normalizes, one after the other, the sums of the stream and what the sublayers make of it."""
        for name, sublayer in sublayers.items():
            x = self.norms[name](sublayer.added(x, x))
        return x
