"""Stochastic depth: in training, examples leave out sublayers at random, the higher ones more often."""

from collections.abc import Mapping
from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from plugformer.interfaces import Residual, ResidualContext, Sublayer


class StochasticDepth(Residual):
    """x + f(norm(x)) for each sublayer f, which a share of the examples leaves out in training.

    Deep Networks with Stochastic Depth, Huang et al. 2016, section 3, equation 4 (linear decay):
    https://arxiv.org/abs/1603.09382. Of L layers, layer l leaves out l / L of the share of the last one. It
    is drawn for each example and sublayer instead of once for a batch, and what is left is divided by its
    share in training instead of multiplied by it afterwards: in evaluation it is `pre`.

    Args:
        model: Names the sublayers, makes their norms, and tells the layer.
        rate: Share of the examples that leave out a sublayer of the last layer.
    """

    def __init__(
        self,
        model: ResidualContext,
        *,
        rate: Annotated[
            float, Field(ge=0, lt=1, description="Share of examples that leave out the last layer.")
        ] = 0.2,
    ) -> None:
        super().__init__()
        self.rate = rate * (model.place.layer + 1) / model.place.layers
        self.norms = nn.ModuleDict({name: model.norm() for name in model.sublayers})

    def forward(
        self, x: Float[Tensor, "batch length width"], sublayers: Mapping[str, Sublayer]
    ) -> Float[Tensor, "batch length width"]:
        """Adds to `x`, one after the other, the outputs of the sublayers, or zero in their place."""
        for name, sublayer in sublayers.items():
            hidden = self.norms[name](x)
            if not self.training or self.rate == 0:
                x = sublayer.added(x, hidden)
                continue
            kept = x.new_empty(len(x), 1, 1).bernoulli_(1 - self.rate)
            x = torch.addcmul(x, sublayer(hidden), kept, value=1 / (1 - self.rate))
        return x
