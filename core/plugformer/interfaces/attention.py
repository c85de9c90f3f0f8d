"""Attention: how tokens read other tokens, and the state that decoding keeps."""

from abc import ABC, abstractmethod
from typing import TypeVar

from jaxtyping import Float, Int
from torch import Tensor, nn

from plugformer.interfaces.attention_context import AttentionContext
from plugformer.interfaces.position import Positions

AnyState = TypeVar("AnyState", bound="State")  # typing.Self, which beartype cannot check in methods


class State(ABC):
    """What `Attention.project` returns: keys and values, a latent, a running sum.

    Decoding appends new tokens and selects rows of the batch. Both methods return the new state and may reuse
    the storage of the old one, which must not be used afterwards.
    """

    @abstractmethod
    def append(self: AnyState, new: AnyState) -> AnyState:
        """Returns the state of the old tokens followed by the new ones."""

    @abstractmethod
    def select(self: AnyState, rows: Int[Tensor, " rows"]) -> AnyState:
        """Returns the state of these rows of the batch, in this order; a row may occur twice or never."""


class Attention(nn.Module, ABC):
    """Attention in two steps, so that the core can cache the state of every component.

    Full self-attention is `attend(x, project(x, positions), context)`. Cross-attention projects the encoder's
    output once per sequence. Incremental decoding appends `project(x_t, positions)` to the state it keeps.

    `plugformer_blocks` has two states: `PositionwiseState` keeps tensors of each token, and `Recurrent` a
    summary of the past. A state that drops old tokens also keeps the positions of the others, and reads with
    `context.over(kept)`.

    A component is constructed as `SomeAttention(model, **options)` with a `ModelContext` and its own keyword
    options, which are validated by the constructor's annotations.

    Attributes:
        residual_path: Names of the linear maps from the values to the residual stream, in order. Initial
            values that depend on the depth scale their matrices.
        reads_layer: Number of a layer below in the same stack whose state it reads; None for its own state.
            That layer must have the same component with the same options and its own state. `project` is
            then not called.
    """

    residual_path: tuple[str, ...] = ("value", "output")
    reads_layer: int | None = None

    @abstractmethod
    def project(self, memory: Float[Tensor, "batch key width"], positions: Positions) -> State:
        """Returns the state that queries read: the projection of `memory`, with tokens at `positions`.

        For later tokens, `project(cat(a, b))` must be equivalent to `project(a).append(project(b))`. Keys are
        rotated here with `positions.rotate(heads)`.
        """

    @abstractmethod
    def attend(
        self, query: Float[Tensor, "batch query width"], state: State, context: AttentionContext
    ) -> Float[Tensor, "batch query width"]:
        """Returns the attention output of each query over the part of the state that the context allows.

        Queries are rotated here with `context.query.rotate(heads)`. For an attention with a softmax,
        `plugformer_blocks.softmax_attention` applies the masks and biases of the context.
        """
