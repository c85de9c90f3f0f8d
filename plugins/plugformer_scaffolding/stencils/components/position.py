"""Sines and cosines of geometrically growing wavelengths, added to the embeddings."""

from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from plugformer.interfaces import ModelContext, PositionalEncoding, Positions


class NewComponent(PositionalEncoding):
    """PE(p, 2i) = sin(p / base^(2i / width)), PE(p, 2i + 1) = cos(p / base^(2i / width)).

    Attention Is All You Need, Vaswani et al. 2017, section 3.5: https://arxiv.org/abs/1706.03762. It
    implements `embed`; an encoding may implement `rotate` or `bias` instead. An odd width ends with a sine.

    Args:
        model: Sizes of the model.
        base: The longest wavelength, over two pi.
    """

    def __init__(
        self,
        model: ModelContext,
        *,
        base: Annotated[float, Field(gt=1)] = 10000.0,
    ) -> None:
        super().__init__()
        self.width = model.width
        self.base = base

    def embed(
        self, x: Float[Tensor, "batch length width"], positions: Positions
    ) -> Float[Tensor, "batch length width"]:
        """Adds the waves' values at each token's position, which counts real tokens only."""
        # In float32 whatever the model's type: bfloat16 cannot tell position 256 from 257.
        exponent = torch.arange(0, self.width, 2, dtype=torch.float32, device=x.device) / self.width
        angles = positions.index[..., None] * self.base**-exponent  # (1 or batch, length, ceil(width / 2))
        waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[..., : self.width]
        return x + waves.to(x.dtype)
