"""Sines and cosines of geometrically growing wavelengths."""

import torch
from jaxtyping import Float
from torch import Tensor

from plugformer.interfaces import ModelContext, PositionalEncoding, Positions


class NewComponent(PositionalEncoding):
    """PE(p, 2i) = sin(p / 10000^(2i / width)), PE(p, 2i + 1) = cos(p / 10000^(2i / width)).

    Attention Is All You Need, Vaswani et al. 2017, section 3.5: https://arxiv.org/abs/1706.03762. It
    implements `embed`; an encoding may implement `rotate` or `bias` instead.
    """

    def __init__(self, model: ModelContext) -> None:
        super().__init__()
        self.width = model.width

    def embed(
        self, x: Float[Tensor, "batch length width"], positions: Positions
    ) -> Float[Tensor, "batch length width"]:
        """Adds the encoding of each token's position to the embeddings."""
        # float32, because bfloat16 does not distinguish the positions 256 and 257
        exponent = torch.arange(0, self.width, 2, dtype=torch.float32, device=x.device) / self.width
        angles = positions.index[..., None] * 10000.0**-exponent  # (1 or batch, length, ceil(width / 2))
        waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[..., : self.width]
        return x + waves.to(x.dtype)
