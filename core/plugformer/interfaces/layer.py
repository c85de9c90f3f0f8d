"""The parts of a layer besides attention: feed-forward networks, norms and residual connections."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn


class Norm(nn.Module, ABC):
    """A normalization over the last axis, each token by itself.

    A component is constructed as `SomeNorm(model, **options)` with a `ModelContext`.
    """

    @abstractmethod
    def forward(self, x: Float[Tensor, "*tokens width"]) -> Float[Tensor, "*tokens width"]:
        """Returns `x`, normalized over its last axis."""


class FeedForward(nn.Module, ABC):
    """A network that computes each real token alone; the layer has removed the padding.

    A component is constructed as `SomeNetwork(model, **options)` with a `ModelContext`. Its hidden layer has
    the width `model.ffn_width`. It may store a scalar loss, for example the balance of routed experts, in the
    attribute `auxiliary_loss`. The core adds it after the forward pass.

    Attributes:
        residual_path: Names of the linear maps from a token to the residual stream, in order. Initial values
            that depend on the depth scale their matrices.
    """

    residual_path: tuple[str, ...] = ("up", "down")

    @abstractmethod
    def forward(self, x: Float[Tensor, "tokens width"]) -> Float[Tensor, "tokens width"]:
        """Returns the network's output for each token."""


@dataclass(eq=False)
class Sublayer:
    """A sublayer of one layer, as a function of hidden states, with dropout on its output.

    Attributes:
        function: Returns the output for hidden states, before dropout.
        dropout: The dropout, a `plugformer.model.layer.Dropout`; None for none.
    """

    function: Callable[[Tensor], Tensor]
    dropout: Any = None

    def __call__(self, hidden: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch length width"]:
        """Returns the sublayer's output, after dropout."""
        output = self.function(hidden)
        return output if self.dropout is None else self.dropout(output)

    def added(
        self, x: Float[Tensor, "batch length width"], hidden: Float[Tensor, "batch length width"]
    ) -> Float[Tensor, "batch length width"]:
        """Returns `x + self(hidden)`, with dropout and addition in one operation."""
        output = self.function(hidden)
        return x + output if self.dropout is None else self.dropout.added(x, output)


class Residual(nn.Module, ABC):
    """The residual connection and the norms of one layer.

    A component is constructed as `SomeResidual(model, **options)` with a `ResidualContext`, once for each
    layer. It calls each sublayer exactly once in evaluation mode, where the sublayer may append to a cache,
    and at most once in training. Only sublayers exchange information between tokens.

    Attributes:
        final_norm: Whether a stack needs a norm after its last layer; the setting `final_norm` overrides it.
        gain: Factor on the initial values of the matrices on the sublayers' `residual_path`.
    """

    final_norm: bool = True
    gain: float = 1.0

    @abstractmethod
    def forward(
        self, x: Float[Tensor, "batch length width"], sublayers: Mapping[str, Sublayer]
    ) -> Float[Tensor, "batch length width"]:
        """Returns the stream after the layer; `x` is the stream before it."""
