"""Norms: what keeps the scale of a residual stream in bounds."""

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn


class Norm(nn.Module, ABC):
    """A normalization over the last axis, each token by itself.

    A component is constructed as `SomeNorm(model, **options)` with a `ModelContext` and its own options.
    """

    @abstractmethod
    def forward(self, x: Float[Tensor, "*tokens width"]) -> Float[Tensor, "*tokens width"]:
        """Returns `x`, normalized over its last axis."""
