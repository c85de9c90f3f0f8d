"""Pre-norm: the stream is normalized before each sublayer, and itself never changed but by addition."""

from collections.abc import Mapping

from jaxtyping import Float
from torch import Tensor, nn

from plugformer.interfaces import Residual, ResidualContext, Sublayer


class PreNorm(Residual):
    """x + f(norm(x)) for each sublayer f, and a norm above the last layer.

    On Layer Normalization in the Transformer Architecture, Xiong et al. 2020, figure 1 (b):
    https://arxiv.org/abs/2002.04745.

    Args:
        model: Names the sublayers and makes their norms.
    """

    def __init__(self, model: ResidualContext) -> None:
        super().__init__()
        self.norms = nn.ModuleDict({name: model.norm() for name in model.sublayers})

    def forward(
        self, x: Float[Tensor, "batch length width"], sublayers: Mapping[str, Sublayer]
    ) -> Float[Tensor, "batch length width"]:
        """Adds to `x`, one after the other, what the sublayers make of its normalized value."""
        for name, sublayer in sublayers.items():
            x = sublayer.added(x, self.norms[name](x))
        return x
