"""Rotary position embedding: queries and keys turn by angles that grow with their position."""

from typing import Annotated

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from plugformer.errors import ConfigurationError
from plugformer.interfaces import ModelContext, PositionalEncoding, Positions


class Rotary(PositionalEncoding):
    """Rotary position embedding; rotates queries and keys by angles proportional to their position.

    Turns pairs of a head's coordinates, so that a score depends on the distance of query and key alone.

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
        self.longest = model.max_length
        self._tables: dict[tuple[int, torch.dtype, torch.device], Tensor] = {}

    def rotate(
        self, heads: Float[Tensor, "batch heads length head_width"], positions: Positions
    ) -> Float[Tensor, "batch heads length head_width"]:
        """Turns query or key heads; angles, cosines and sines are computed in float32 at least.

        Raises:
            ConfigurationError: The head width is odd.
        """
        width = heads.shape[-1]
        if width % 2:
            raise ConfigurationError(
                f"rotary positions cannot pair the coordinates of heads of odd width {width}; "
                f"expected an even head width, {width + 1} for example: change model.width or model.heads"
            )
        turns = positions.cached((self, width, heads.dtype), lambda: self._at(positions, width, heads.dtype))
        return turn(heads, turns)

    def _at(
        self, positions: Positions, width: int, dtype: torch.dtype
    ) -> Float[Tensor, "#batch 1 length pairs 4"]:
        """Returns what `turn` takes of every angle; from a table where the last position is known."""
        index = positions.index
        if positions.end is None:
            return self._turns(index, width, dtype)[:, None]
        key = width, dtype, index.device
        if key not in self._tables or len(self._tables[key]) < positions.end:
            with torch.inference_mode(False), torch.no_grad():
                every = torch.arange(max(self.longest, 2 * positions.end), device=index.device)
                self._tables[key] = self._turns(every, width, dtype)
        table = self._tables[key]
        found = table[index] if positions.start is None else table[None, positions.start : positions.end]
        return found[:, None]

    def _turns(
        self, index: Int[Tensor, "*positions"], width: int, dtype: torch.dtype
    ) -> Float[Tensor, "*positions pairs 4"]:
        """Returns cosine, sine, minus sine and sine of every angle, computed in float32 at least."""
        wide = torch.promote_types(dtype, torch.float32)
        rates = self.base ** (-torch.arange(0, width, 2, dtype=wide, device=index.device) / width)
        angles = index[..., None] * rates
        cosine, sine = angles.cos(), angles.sin()
        return torch.stack([cosine, sine, -sine, sine], dim=-1).to(dtype)


def turn(
    heads: Float[Tensor, "batch heads length head_width"],
    turns: Float[Tensor, "#batch 1 length pairs 4"],
) -> Float[Tensor, "batch heads length head_width"]:
    """Returns pairs of coordinates multiplied by the turns, as complex numbers.

    In float32 the complex product is one kernel; compilers fuse the formula, but not the product, and in 16
    bits there are no complex numbers.
    """
    if any(stride % 2 for stride in heads.stride()[:-1]):  # no complex numbers lie there
        heads = heads.contiguous()
    pairs = heads.unflatten(-1, (-1, 2))
    if heads.dtype in (torch.float32, torch.float64) and not torch.compiler.is_compiling():
        product = torch.view_as_complex(pairs) * torch.view_as_complex(turns[..., :2])
        return torch.view_as_real(product).flatten(-2)
    return torch.addcmul(pairs * turns[..., :1], pairs.flip(-1), turns[..., 2:]).flatten(-2)
