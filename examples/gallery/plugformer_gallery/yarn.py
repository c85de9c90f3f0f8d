"""YaRN: rotary positions for sequences longer than those that a model was trained on."""

import math
from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from plugformer.errors import ConfigurationError
from plugformer.interfaces import ModelContext, PositionalEncoding, Positions


class YaRN(PositionalEncoding):
    """Turns pairs of a head's coordinates as rotary positions do, slow pairs more slowly.

    YaRN: Efficient Context Window Extension of Large Language Models, Peng et al. 2023:
    https://arxiv.org/abs/2309.00071. By section 3.2 a pair that turns fewer than `slow` times within the
    original length is slowed down by `factor`, one that turns more than `fast` times is left as it is, and
    those between are interpolated. By section 3.4 all heads grow by 0.1 ln(factor) + 1, which makes the
    softmax sharper. It has no parameters: with `factor: 1` it is `rope`, whose pairs are neighbors, too.

    Args:
        model: Sizes of the model.
        factor: How many times longer than the original length sequences may be.
        original_length: Length trained on, in tokens. None: the model's longest, divided by the factor.
        base: Wavelengths grow geometrically from 2 pi to about 2 pi base.
        slow: Turns within the original length below which a pair is slowed down in full.
        fast: Turns above which it is left as it is.

    Raises:
        ConfigurationError: `slow` is not below `fast`.
    """

    def __init__(
        self,
        model: ModelContext,
        *,
        factor: Annotated[float, Field(ge=1, description="How many times longer sequences may be.")] = 4.0,
        original_length: Annotated[
            int | None, Field(ge=1, description="Length trained on; if null, max_length / factor.")
        ] = None,
        base: Annotated[float, Field(gt=1, description="About the longest wavelength, over 2 pi.")] = 10000.0,
        slow: Annotated[float, Field(gt=0, description="Turns below which a pair is slowed down.")] = 1.0,
        fast: Annotated[float, Field(gt=0, description="Turns above which a pair is left as it is.")] = 32.0,
    ) -> None:
        super().__init__()
        if slow >= fast:
            raise ConfigurationError(f"slow is {slow:g}; expected less than fast, which is {fast:g}")
        self.factor, self.base, self.slow, self.fast = factor, base, slow, fast
        self.length = original_length or model.max_length / factor
        self.temperature = 0.1 * math.log(factor) + 1

    def rotate(
        self, heads: Float[Tensor, "batch heads length head_width"], positions: Positions
    ) -> Float[Tensor, "batch heads length head_width"]:
        """Turns query or key heads, in float32 at least.

        Raises:
            ConfigurationError: The head width is odd.
        """
        if heads.shape[-1] % 2:
            raise ConfigurationError(
                f"rotary positions cannot pair the coordinates of heads of odd width {heads.shape[-1]}: "
                "change model.width or model.heads"
            )
        dtype = torch.promote_types(heads.dtype, torch.float32)
        rates = self.rates(heads.shape[-1]).to(heads.device, dtype)
        angles = positions.index[:, None, :, None] * rates
        cosine, sine = (self.temperature * wave for wave in (angles.cos(), angles.sin()))
        real, imaginary = heads.to(dtype).unflatten(-1, (-1, 2)).unbind(-1)
        turned = torch.stack([real * cosine - imaginary * sine, real * sine + imaginary * cosine], dim=-1)
        return turned.flatten(-2).to(heads.dtype)

    def rates(self, width: int) -> Float[Tensor, " pairs"]:
        """Returns by how much each pair of a head turns from one position to the next, in radians."""
        rates = self.base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        turns = self.length * rates / (2 * math.pi)
        kept = ((turns - self.slow) / (self.fast - self.slow)).clamp(0, 1)
        return (1 - kept) * rates / self.factor + kept * rates
