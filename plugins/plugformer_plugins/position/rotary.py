"""Rotary position embedding: queries and keys turn by angles that grow with their position."""

from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from plugformer.errors import ConfigurationError
from plugformer.interfaces import ModelContext, PositionalEncoding, Positions


class Rotary(PositionalEncoding):
    """Turns pairs of a head's coordinates, so that a score depends on the distance of query and key alone.

    RoFormer, Su et al. 2021, section 3.2.2, equations 14 and 15: https://arxiv.org/abs/2104.09864. For a head
    of width d at position p, the pair i = 0, ..., d/2 - 1, read as a complex number, is multiplied by
    exp(j p base^(-2i / d)).

    Pairs are neighbors, as in the paper: coordinates 2i and 2i + 1. (GPT-NeoX and Llama in Hugging Face
    Transformers pair i with i + d/2; their weights need their rows of queries and keys reordered.)

    Args:
        model: Sizes of the model.
        base: Wavelengths grow geometrically from 2 pi to about 2 pi base.
    """

    def __init__(self, model: ModelContext, *, base: Annotated[float, Field(gt=1)] = 10000.0) -> None:
        super().__init__()
        self.base = base

    def rotate(
        self, heads: Float[Tensor, "batch heads length head_width"], positions: Positions
    ) -> Float[Tensor, "batch heads length head_width"]:
        """Turns query or key heads; computes in float32 at least, whatever their dtype.

        Raises:
            ConfigurationError: The head width is odd.
        """
        width = heads.shape[-1]
        if width % 2:
            raise ConfigurationError(
                f"rotary positions cannot pair the coordinates of heads of odd width {width}; "
                f"expected an even head width, {width + 1} for example: change model.width or model.heads"
            )
        dtype = torch.promote_types(heads.dtype, torch.float32)
        turns = positions.cached((self, width, dtype), lambda: self._turns(width, positions, dtype))
        pairs = heads.to(dtype).unflatten(-1, (-1, 2))
        return multiply(pairs, turns).flatten(-2).to(heads.dtype)

    def _turns(
        self, width: int, positions: Positions, dtype: torch.dtype
    ) -> Float[Tensor, "#batch 1 length pairs 2"]:
        """Returns cosine and sine of every angle."""
        rates = self.base ** (-torch.arange(0, width, 2, dtype=dtype, device=positions.index.device) / width)
        angles = positions.index[:, None, :, None] * rates
        return torch.stack([angles.cos(), angles.sin()], dim=-1)


def multiply(
    pairs: Float[Tensor, "batch heads length pairs 2"], turns: Float[Tensor, "#batch 1 length pairs 2"]
) -> Float[Tensor, "batch heads length pairs 2"]:
    """Multiplies complex numbers given as real and imaginary parts.

    Uncompiled, the complex product is one kernel and about three times as fast as the formula; compilers fuse
    the formula, but not the product.
    """
    if not torch.compiler.is_compiling():
        return torch.view_as_real(torch.view_as_complex(pairs) * torch.view_as_complex(turns))
    real, imaginary = pairs.unbind(-1)
    cosine, sine = turns.unbind(-1)
    return torch.stack([real * cosine - imaginary * sine, real * sine + imaginary * cosine], dim=-1)
