"""The parts of a layer besides attention: feed-forward networks, norms and residual connections."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from jaxtyping import Bool, Float
from torch import Tensor, nn

Stream = Float[Tensor, "batch length width"]


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
        """Returns the network's output for each token; there may be no token at all, in training, too."""


@dataclass(eq=False)
class Sublayer:
    """A sublayer of one layer, as a function of hidden states, with dropout on its output.

    Given a mask `tokens`, it computes these real tokens alone: only they are queries, keys and inputs of the
    feed-forward network, at their own positions. At all others the output is zero.

    Attributes:
        function: Returns the output for hidden states (batch, length, width) and `tokens`, before dropout.
        dropout: The dropout, a `plugformer.model.layer.Dropout`; None for none.
        real: True for real tokens, False for padding; a share of a sequence is a share of these.
    """

    function: Callable[[Tensor, Tensor | None], Tensor]
    dropout: Any = None
    real: Bool[Tensor, "batch length"] | None = None

    def __call__(self, hidden: Stream, tokens: Bool[Tensor, "batch length"] | None = None) -> Stream:
        """Returns the sublayer's output, after dropout; of all tokens if `tokens` is None."""
        output = self.function(hidden, tokens)
        return output if self.dropout is None else self.dropout(output)

    def added(self, x: Stream, hidden: Stream, tokens: Bool[Tensor, "batch length"] | None = None) -> Stream:
        """Returns `x + self(hidden, tokens)`, with dropout and addition in one operation."""
        output = self.function(hidden, tokens)
        return x + output if self.dropout is None else self.dropout.added(x, output)


class Residual(nn.Module, ABC):
    """The residual connection and the norms of one layer.

    A component is constructed as `SomeResidual(model, **options)` with a `ResidualContext`, once for each
    layer. It calls each sublayer exactly once in evaluation mode, where the sublayer may append to a cache,
    and at most once in training. Only sublayers exchange information between tokens. It may store an
    `auxiliary_loss`, as a feed-forward network may.

    Attributes:
        takes: What tokens sublayers compute in evaluation: "all"; some, each chosen "by token" from its own
            hidden state; or some "by sequence", for stacks whose tokens all see each other.
        final_norm: Whether a stack needs a norm after its last layer; the setting `final_norm` overrides it.
        gain: Factor on the initial values of the matrices on the sublayers' `residual_path`.
    """

    takes: Literal["all", "by token", "by sequence"] = "all"
    final_norm: bool = True
    gain: float = 1.0

    @abstractmethod
    def forward(self, x: Stream, sublayers: Mapping[str, Sublayer]) -> Stream:
        """Returns the stream after the layer, (batch, length, width); `x` is the stream before it."""
