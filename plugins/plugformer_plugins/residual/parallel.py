"""Parallel sublayers: all of a layer's sublayers read the same normalized stream."""

from collections.abc import Mapping

from jaxtyping import Float
from torch import Tensor

from plugformer.interfaces import Residual, ResidualContext, Sublayer


class Parallel(Residual):
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
