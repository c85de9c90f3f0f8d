"""Residual connections that differ in where they normalize."""

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


class ParallelResidual(Residual):
    """x + f(norm(x)) + g(norm(x)), with one norm for the whole layer, and a norm above the last layer.

    PaLM, Chowdhery et al. 2022, section 2 (parallel layers): https://arxiv.org/abs/2204.02311; first in GPT-J
    (https://github.com/kingoflolz/mesh-transformer-jax). In a layer that reads another stack, cross-attention
    is a third term.

    Args:
        model: Makes the norm.
    """

    def __init__(self, model: ResidualContext) -> None:
        super().__init__()
        self.norm = model.norm()

    def forward(
        self, x: Float[Tensor, "batch length width"], sublayers: Mapping[str, Sublayer]
    ) -> Float[Tensor, "batch length width"]:
        """Adds to `x` what the sublayers make of its normalized value."""
        hidden = self.norm(x)
        for sublayer in sublayers.values():
            x = sublayer.added(x, hidden)
        return x
