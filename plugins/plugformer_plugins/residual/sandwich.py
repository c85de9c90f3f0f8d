"""Sandwich norm: each sublayer has a norm before it and another one after it."""

from collections.abc import Mapping

from jaxtyping import Float
from torch import Tensor, nn

from plugformer.interfaces import Residual, ResidualContext, Sublayer


class SandwichNorm(Residual):
    """x + norm'(f(norm(x))) for each sublayer f, and a norm above the last layer.

    CogView, Ding et al. 2021, section 2.4 (Sandwich-LN): https://arxiv.org/abs/2105.13290. What a sublayer
    adds to the stream is bounded, which its authors found necessary in float16. Dropout comes before the
    second norm.

    Args:
        model: Names the sublayers and makes their norms.
    """

    def __init__(self, model: ResidualContext) -> None:
        super().__init__()
        self.before = nn.ModuleDict({name: model.norm() for name in model.sublayers})
        self.after = nn.ModuleDict({name: model.norm() for name in model.sublayers})

    def forward(
        self, x: Float[Tensor, "batch length width"], sublayers: Mapping[str, Sublayer]
    ) -> Float[Tensor, "batch length width"]:
        """Adds to `x`, one after the other, the normalized outputs of the sublayers."""
        for name, sublayer in sublayers.items():
            x = x + self.after[name](sublayer(self.before[name](x)))
        return x
