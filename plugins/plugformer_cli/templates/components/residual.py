"""Pre-norm with a learned scale for each sublayer."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn

from plugformer.interfaces import Residual, ResidualContext, Sublayer


class NewComponent(Residual):
    """x + a f(norm(x)) for each sublayer f, with a learned scale a that starts at 0.1.

    Batch Normalization Biases Residual Blocks Towards the Identity Function in Deep Networks, De and Smith
    2020, section 4 (SkipInit): https://arxiv.org/abs/2002.10444; here the norms remain.
    """

    def __init__(self, model: ResidualContext) -> None:
        super().__init__()
        self.norms = nn.ModuleDict({name: model.norm() for name in model.sublayers})
        self.factors = nn.ParameterDict({name: nn.Parameter(torch.empty(1)) for name in model.sublayers})
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the scales to 0.1."""
        for factor in self.factors.values():
            nn.init.constant_(factor, 0.1)

    def forward(
        self, x: Float[Tensor, "batch length width"], sublayers: Mapping[str, Sublayer]
    ) -> Float[Tensor, "batch length width"]:
        """Adds the scaled output of each sublayer for the normalized input."""
        for name, sublayer in sublayers.items():
            factor = self.factors[name].to(x.dtype)  # the stream keeps its format under autocast
            x = x + factor * sublayer(self.norms[name](x))
        return x
