"""The parts of a layer: attention, feed-forward networks, norms and residual connections."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from jaxtyping import Bool, Float
from torch import Tensor, nn

from plugformer.interfaces.context import Context
from plugformer.interfaces.position import View

Stream = Float[Tensor, "batch length width"]


class Norm(nn.Module, ABC):
    """A normalization over the last axis, each token by itself.

    A component is constructed as `SomeNorm(model, **options)` with a `ModelContext`. It computes in float32
    at least, and returns the format that it is given. There may be no token at all.
    """

    @abstractmethod
    def forward(self, x: Float[Tensor, "*tokens width"]) -> Float[Tensor, "*tokens width"]:
        """Returns `x`, normalized over its last axis."""


class Attention(nn.Module, ABC):
    """A sublayer in which tokens read other tokens: attention, a recurrence, or a convolution.

    A component is constructed as `SomeAttention(model, **options)` with a `ModelContext`. What it needs of
    the tokens before a step of decoding it gets from its context: `Context.cached` for keys and values,
    `Context.past` and `keep` for a summary of a fixed shape, `Context.once` for what it makes of the memory
    in cross-attention (`Context.cross`). `plugformer_blocks.softmax_attention` applies the
    masks and biases of a context.

    Attributes:
        residual_path: Names of the linear maps from the values to the residual stream, in order. Initial
            values that depend on the depth scale their matrices.
        reads_layer: Number of a layer below with the same attention, of which it reads `Context.shared`
            instead of calling `cached` or `once`; None for its own keys and values.
    """

    residual_path: tuple[str, ...] = ("value", "output")
    reads_layer: int | None = None

    def follows(self, view: View) -> bool:  # noqa: ARG002 (a default)
        """Returns whether it sees what a view allows and nothing else; by default yes, by the context's mask.

        A mixer with a running state follows CAUSAL alone. A model with another view is refused.
        """
        return True

    @abstractmethod
    def forward(self, x: Stream, context: Context) -> Stream:
        """Returns the output for each token; at padding any finite values.

        The output of a token may depend on what its context allows it to see and on nothing else. Computing a
        sequence in pieces, of one token or more, must be equivalent to computing it at once.
        """


class FeedForward(nn.Module, ABC):
    """A network that computes each token by itself.

    A component is constructed as `SomeNetwork(model, **options)` with a `ModelContext`. Its hidden layer has
    the width `model.ffn_width`. It may store a scalar loss, for example the balance of routed experts, in the
    attribute `auxiliary_loss`, which must not depend on padding (`Context.real`). The core adds it after the
    forward pass. There may be no token at all: a batch, or a length, of 0.

    Attributes:
        residual_path: Names of the linear maps from a token to the residual stream, in order. Initial values
            that depend on the depth scale their matrices.
    """

    residual_path: tuple[str, ...] = ("up", "down")

    @abstractmethod
    def forward(self, x: Stream, context: Context) -> Stream:
        """Returns the network's output for each token; at padding any finite values."""


@dataclass(eq=False)
class Sublayer:
    """A sublayer of one layer, as a function of hidden states, with dropout on its output.

    A mask `tokens` chooses the real tokens that it computes: only these are queries and keys, at their own
    positions, and at all others the output is zero. With an upper bound `most` of their number in each row,
    known without reading a device, training gathers them, and computes no others.

    Attributes:
        function: Returns the output for hidden states (batch, length, width), `tokens` and `most`.
        dropout: The dropout, a `plugformer.model.layer.Dropout`; None for none.
        real: True for real tokens, False for padding; a share of a sequence is a share of these. None where
            the residual connection takes all tokens.
    """

    function: Callable[[Tensor, Tensor | None, int | None], Tensor]
    dropout: Any = None
    real: Bool[Tensor, "batch length"] | None = None

    def __call__(
        self, hidden: Stream, tokens: Bool[Tensor, "batch length"] | None = None, *, most: int | None = None
    ) -> Stream:
        """Returns the sublayer's output, after dropout; of all tokens if `tokens` is None."""
        output = self.function(hidden, tokens, most)
        return output if self.dropout is None else self.dropout(output)

    def added(
        self,
        x: Stream,
        hidden: Stream,
        tokens: Bool[Tensor, "batch length"] | None = None,
        *,
        most: int | None = None,
    ) -> Stream:
        """Returns `x + self(hidden, tokens)`, with dropout and addition in one operation."""
        output = self.function(hidden, tokens, most)
        return x + output if self.dropout is None else self.dropout.added(x, output)


class Residual(nn.Module, ABC):
    """The residual connection and the norms of one layer.

    A component is constructed as `SomeResidual(model, **options)` with a `ResidualContext`, once for each
    layer. It calls each sublayer exactly once in evaluation mode, where the sublayer may write to a cache,
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
