"""Feed-forward networks: what a layer computes for each token alone."""

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn


class FeedForward(nn.Module, ABC):
    """A network that is applied to each real token; the layer has removed the padding.

    A component is constructed as `SomeNetwork(model, **options)` with a `ModelContext` and its own keyword
    options; its hidden layer has the width `model.ffn_width`. It may leave a loss of its own in the attribute
    `auxiliary_loss`, for example the balance of routed experts. The core takes this scalar after the pass.

    Attributes:
        residual_path: Names of the linear maps from a token to the residual stream, in order. Initial values
            that depend on the depth scale their matrices.
    """

    residual_path: tuple[str, ...] = ("up", "down")

    @abstractmethod
    def forward(self, x: Float[Tensor, "tokens width"]) -> Float[Tensor, "tokens width"]:
        """Returns the network's output for each token."""
