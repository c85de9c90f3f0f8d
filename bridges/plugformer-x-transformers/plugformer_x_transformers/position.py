"""Positional encodings of x-transformers."""

from typing import Annotated, Any

from jaxtyping import Float
from pydantic import Field
from torch import Tensor
from x_transformers import x_transformers as library

from plugformer.interfaces import ModelContext, PositionalEncoding, Positions
from plugformer_x_transformers.settings import adapted

Heads = Float[Tensor, "batch heads length head_width"]
Bias = Float[Tensor, "#batch maps query key"]


class XScaledSinusoidal(PositionalEncoding):
    """Sinusoidal waves times one learned number: https://github.com/lucidrains/x-transformers.

    Args:
        model: Sizes of the model; the width must be even.
        theta: Base of the wavelengths.
    """

    def __init__(self, model: ModelContext, *, theta: Annotated[float, Field(gt=1)] = 10000.0) -> None:
        super().__init__()
        self.waves = adapted(library.ScaledSinusoidalEmbedding, model.width, settings={}, theta=theta)

    def embed(
        self, x: Float[Tensor, "batch length width"], positions: Positions
    ) -> Float[Tensor, "batch length width"]:
        """Adds the waves of each token's position."""
        waves: Tensor = self.waves(x, pos=positions.index.flatten().float()).view(*positions.index.shape, -1)
        return x + waves.to(x.dtype)


class XDynamicBias(PositionalEncoding):
    """A small network of the distance biases the scores of each head, as in CrossFormer, Wang et al. 2021.

    https://arxiv.org/abs/2108.00154, section 3.2.

    Args:
        model: Sizes of the model.
        hidden: Width of the network.
        depth: Its hidden layers.
        logarithm: Whether it reads the logarithm of the distance.
    """

    def __init__(
        self,
        model: ModelContext,
        *,
        hidden: Annotated[int, Field(ge=1)] = 32,
        depth: Annotated[int, Field(ge=1)] = 2,
        logarithm: bool = True,
    ) -> None:
        super().__init__()
        self.logarithm = logarithm
        sizes = {"heads": model.heads, "depth": depth, "log_distance": logarithm}
        self.network = adapted(library.DynamicPositionBias, hidden, settings={}, **sizes)

    def bias(self, query: Positions, key: Positions) -> Bias:
        """Returns what the network makes of the distance of each query and key."""
        network: Any = self.network.module
        distance = (query.index[:, :, None] - key.index[:, None, :])[..., None]
        hidden = distance.to(next(network.parameters()).dtype)
        if self.logarithm:
            hidden = hidden.sign() * (hidden.abs() + 1).log()
        for layer in network.mlp:
            hidden = layer(hidden)
        return hidden.movedim(-1, 1)


class XRotary(PositionalEncoding):
    """Rotary positions of x-transformers, interpolated or with another base: https://arxiv.org/abs/2306.15595.

    Args:
        model: Sizes of the model.
        interpolation_factor: What positions are divided by.
        base: Base of the wavelengths.
    """

    def __init__(
        self,
        model: ModelContext,
        *,
        interpolation_factor: Annotated[float, Field(ge=1)] = 1.0,
        base: Annotated[float, Field(gt=1)] = 10000.0,
    ) -> None:
        super().__init__()
        self.settings = {"interpolation_factor": interpolation_factor, "base": base}

    def rotate(self, heads: Heads, positions: Positions) -> Heads:
        """Rotates pairs of numbers in each head by angles that grow with the position."""
        width = heads.shape[-1]
        angles = positions.cached((id(self), width), lambda: self._angles(width, positions.index))
        rotated: Tensor = library.apply_rotary_pos_emb(heads, angles)
        return rotated

    def _angles(self, width: int, index: Tensor) -> Tensor:
        angles: Tensor = library.RotaryEmbedding(width, **self.settings).to(index.device)(index)[0]
        return angles
