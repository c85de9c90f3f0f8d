"""Token merging: in each layer of an encoder, similar tokens are computed as one."""

from collections.abc import Mapping
from typing import Annotated

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import normalize

from plugformer.interfaces import Residual, ResidualContext, Sublayer
from plugformer_gallery.mixture_of_depths import best


class TokenMerging(Residual):
    """x + f(norm(x)) for each sublayer f, where merged tokens are averaged before f and share its output.

    Token Merging, Bolya et al. 2022, section 3: https://arxiv.org/abs/2210.09461. Every second token may be
    merged into the most similar one of the others; the most similar pairs are. Tokens are compared by the
    stream, not by the keys of attention. As in Token Merging for Fast Stable Diffusion, Bolya and Hoffman
    2023, section 3: https://arxiv.org/abs/2303.17604, the layer ends with as many tokens as it began with.

    Args:
        model: Names the sublayers and makes their norms.
        share: Share of every second token that is merged.
    """

    takes = "by sequence"

    def __init__(
        self,
        model: ResidualContext,
        *,
        share: Annotated[float, Field(ge=0, le=1, description="Share of every second token merged.")] = 0.5,
    ) -> None:
        super().__init__()
        self.share = share
        self.norms = nn.ModuleDict({name: model.norm() for name in model.sublayers})

    def forward(
        self, x: Float[Tensor, "batch length width"], sublayers: Mapping[str, Sublayer]
    ) -> Float[Tensor, "batch length width"]:
        """Returns the stream after the layer."""
        real = next(iter(sublayers.values())).real
        into = merge(x, real, self.share)
        columns = torch.arange(x.shape[1], device=x.device)
        tokens = real & (into == columns)
        into = into[..., None].expand_as(x)
        size = torch.zeros_like(x).scatter_add(1, into, torch.ones_like(x)).clamp(min=1)
        for name, sublayer in sublayers.items():
            hidden = self.norms[name](x)
            mean = torch.zeros_like(hidden).scatter_add(1, into, hidden) / size
            x = x + sublayer(mean, tokens).gather(1, into)
        return x


@torch.no_grad()
def merge(
    x: Float[Tensor, "batch length width"], real: Bool[Tensor, "batch length"], share: float
) -> Int[Tensor, "batch length"]:
    """Returns the column of the token that each one is merged into, its own if it stays."""
    columns = torch.arange(x.shape[1], device=x.device).expand_as(real)
    if x.shape[1] < 2:
        return columns
    second = real & (real.cumsum(dim=1) % 2 == 0)
    directions = normalize(x, dim=-1)
    similar = (directions @ directions.mT).masked_fill(~(real & ~second)[:, None], -torch.inf)
    similarity, nearest = similar.max(dim=2)
    return torch.where(best(similarity, second, share), nearest, columns)
