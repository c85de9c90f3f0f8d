"""Attention: how the tokens of a sequence read one another, or those of another, and what decoding keeps."""

from abc import ABC, abstractmethod
from typing import TypeVar

from jaxtyping import Float, Int
from torch import Tensor, nn

from plugformer.interfaces.attention_context import AttentionContext
from plugformer.interfaces.position import Positions

AnyState = TypeVar("AnyState", bound="State")  # typing.Self, which beartype cannot check in methods


class State(ABC):
    """What `Attention.project` returns: keys and values, a latent, a running sum.

    Decoding appends in time and selects rows of the batch; both return the state to go on with and may reuse
    the storage of the old one, which must not be used afterwards.
    """

    @abstractmethod
    def append(self: AnyState, new: AnyState) -> AnyState:
        """Returns the state of the old tokens followed by the new ones."""

    @abstractmethod
    def select(self: AnyState, rows: Int[Tensor, " rows"]) -> AnyState:
        """Returns the state of these rows of the batch, in this order; a row may occur twice or never."""


class Attention(nn.Module, ABC):
    """Attention in two steps, so that caching is a property of the core and every component has it.

    Full self-attention is `attend(x, project(x, positions), context)`. Cross-attention projects the encoder's
    output once per sequence. Incremental decoding appends `project(x_t, positions)` to the state it keeps.

    What is kept decides the state. In `plugformer_blocks`, `PositionwiseState` holds something of each token,
    and `Recurrent` is for mixers that decode from a summary of the past: `project` maps each token by itself,
    and `attend` does what depends on the tokens before. A state that drops old tokens keeps the positions of
    the others beside them and reads with `context.over(kept)`.

    A component is constructed as `SomeAttention(model, **options)` with a `ModelContext` and its own keyword
    options, which are validated from the constructor's annotations. Where it makes no sense, such as a
    recurrence in cross-attention, it raises ConfigurationError; `model.place` says where it stands.

    Attributes:
        residual_path: Names of the linear maps that values pass through to the residual stream, the last one
            last. Schemes of initial values that go by the depth scale their matrices.
        reads_layer: Number of a layer below, of the same stack, whose state it reads; None for a state of its
            own. The same component, with the same options and a state of its own, must stand there. Nothing
            is projected or cached then in its own layer: `project` is not called.
    """

    residual_path: tuple[str, ...] = ("value", "output")
    reads_layer: int | None = None

    @abstractmethod
    def project(self, memory: Float[Tensor, "batch key width"], positions: Positions) -> State:
        """Returns the state that queries read: `memory` projected, its tokens at `positions`.

        What later tokens read of `project(cat(a, b))` must equal what they read of
        `project(a).append(project(b))`. Keys are rotated here with `positions.rotate(heads)`.
        """

    @abstractmethod
    def attend(
        self, query: Float[Tensor, "batch query width"], state: State, context: AttentionContext
    ) -> Float[Tensor, "batch query width"]:
        """Returns the attention output of each query over the part of the state that the context allows.

        Queries are rotated here with `context.query.rotate(heads)`; masks and biases are the context's.
        `plugformer_blocks.softmax_attention` applies these for an attention that is built on a softmax.
        """
