"""Residual connections of x-transformers."""

from collections.abc import Mapping
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn
from x_transformers import x_transformers as library

from plugformer.interfaces import Residual, ResidualContext, Sublayer
from plugformer_x_transformers.settings import Settings, adapted

Stream = Float[Tensor, "batch length width"]


class XResidual(Residual):
    """Pre-norm, with a residual connection of x-transformers: https://github.com/lucidrains/x-transformers.

    Args:
        model: Names the sublayers and makes their norms.
        kind: The class of x-transformers.
        settings: Its arguments, such as `{scale_residual: true}`.
    """

    def __init__(
        self,
        model: ResidualContext,
        *,
        kind: Literal["Residual", "GRUGating"] = "Residual",
        settings: Settings | None = None,
    ) -> None:
        super().__init__()
        self.norms = nn.ModuleDict({name: model.norm() for name in model.sublayers})
        make = getattr(library, kind)
        self.connections = nn.ModuleDict(
            {name: adapted(make, model.width, settings=settings or {}) for name in model.sublayers}
        )

    def forward(self, x: Stream, sublayers: Mapping[str, Sublayer]) -> Stream:
        """Connects each sublayer's output with the stream."""
        for name, sublayer in sublayers.items():
            x = self.connections[name](sublayer(self.norms[name](x)), x).to(x.dtype)
        return x
