"""Feed-forward networks: what a layer computes at each token by itself."""

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn


class FeedForward(nn.Module, ABC):
    """A network applied to every real token alone; the layer has taken the padding out.

    A component is constructed as `SomeNetwork(model, **options)` with a `ModelContext` (whose `ffn_width`
    it honors) and its own keyword options. A loss of its own (such as the balance of routed experts) is left
    in the attribute `auxiliary_loss`, a scalar that the core collects after the forward pass and clears.

    Attributes:
        residual_path: Names of the linear maps between a token and the residual stream, the last one last.
            Schemes of initial values that go by the depth scale their matrices.
    """

    residual_path: tuple[str, ...] = ("up", "down")

    @abstractmethod
    def forward(self, x: Float[Tensor, "tokens width"]) -> Float[Tensor, "tokens width"]:
        """Returns the network's output at each token."""
