"""LayerScale: each sublayer's output is multiplied by a learned vector that starts small."""

from collections.abc import Mapping
from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from plugformer.interfaces import Residual, ResidualContext, Sublayer


class LayerScale(Residual):
    """x + scale * f(norm(x)) for each sublayer f, and a norm above the last layer.

    Going deeper with Image Transformers, Touvron et al. 2021, section 2, equation 4:
    https://arxiv.org/abs/2103.17239. A scale is (width,), one for each sublayer.

    Args:
        model: Names the sublayers, makes their norms, and tells the depth.
        init: What the scales start at. None: by the depth of the stack as in the paper, 0.1 up to 18 layers,
            1e-5 up to 24, 1e-6 beyond.
    """

    def __init__(
        self, model: ResidualContext, *, init: Annotated[float | None, Field(gt=0, le=1)] = None
    ) -> None:
        super().__init__()
        self.init = _by_depth(model.place.layers) if init is None else init
        self.norms = nn.ModuleDict({name: model.norm() for name in model.sublayers})
        self.scales = nn.ParameterDict(
            {name: nn.Parameter(torch.empty(model.width)) for name in model.sublayers}
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets every scale to `init`."""
        for scale in self.scales.values():
            nn.init.constant_(scale, self.init)

    def forward(
        self, x: Float[Tensor, "batch length width"], sublayers: Mapping[str, Sublayer]
    ) -> Float[Tensor, "batch length width"]:
        """Adds to `x`, one after the other, the scaled outputs of the sublayers."""
        for name, sublayer in sublayers.items():
            x = torch.addcmul(x, sublayer(self.norms[name](x)), self.scales[name])
        return x


def _by_depth(layers: int) -> float:
    """Returns the paper's first value of the scales for a stack."""
    if layers <= 18:
        return 0.1
    return 1e-5 if layers <= 24 else 1e-6
