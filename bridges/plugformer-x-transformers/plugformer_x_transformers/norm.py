"""Norms of x-transformers."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from x_transformers import x_transformers as library

from plugformer.interfaces import ModelContext, Norm
from plugformer_x_transformers.settings import Settings, adapted


class XNorm(Norm):
    """A norm of x-transformers: https://github.com/lucidrains/x-transformers.

    Args:
        model: Sizes of the model.
        kind: The class of x-transformers.
        settings: Its arguments, such as `{unit_offset: true}`.
    """

    def __init__(
        self,
        model: ModelContext,
        *,
        kind: Literal[
            "LayerNorm", "ScaleNorm", "RMSNorm", "SimpleRMSNorm", "DynamicTanh", "Derf"
        ] = "RMSNorm",
        settings: Settings | None = None,
    ) -> None:
        super().__init__()
        self.norm = adapted(getattr(library, kind), model.width, settings=settings or {})

    def forward(self, x: Float[Tensor, "*tokens width"]) -> Float[Tensor, "*tokens width"]:
        """Returns `x`, normalized over its last axis, computed in float32 at least."""
        with torch.autocast(x.device.type, enabled=False):
            output: Tensor = self.norm(x.to(torch.promote_types(x.dtype, torch.float32)))
        return output.to(x.dtype)
