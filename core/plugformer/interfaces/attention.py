"""Attention: how the tokens of a sequence read one another, or those of another, and what decoding keeps."""

from abc import ABC, abstractmethod
from typing import TypeVar

from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from plugformer.interfaces.position import Positions
from plugformer.interfaces.scope import Scope

AnyState = TypeVar("AnyState", bound="State")  # typing.Self, which beartype cannot check in methods

Kept = TypeVar("Kept", bound="PositionwiseState")

Running = TypeVar("Running", bound="Recurrent")


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


class PositionwiseState(State):
    """Tensors with the batch on axis 0 and the length on axis 1: one entry for each position.

    Right for every attention for which projecting a whole sequence equals projecting its pieces and
    concatenating them. Storage doubles when it is full, so that appending a token moves no old one.
    """

    def __init__(self, *tensors: Shaped[Tensor, "batch length ..."]) -> None:
        self._storage = tensors
        self._length = tensors[0].shape[1]

    @property
    def tensors(self) -> tuple[Shaped[Tensor, "batch length ..."], ...]:
        """The tensors given to the constructor, over the whole length so far."""
        return tuple(tensor[:, : self._length] for tensor in self._storage)

    def append(self: Kept, new: Kept) -> Kept:
        """Writes the new positions behind the old ones, in place where there is room."""
        length = self._length + new._length
        if length > self._storage[0].shape[1]:
            self._storage = tuple(_room(tensor, self._length, 2 * length) for tensor in self._storage)
        for storage, tensor in zip(self._storage, new.tensors, strict=True):
            storage[:, self._length : length] = tensor
        self._length = length
        return self

    def select(self: Kept, rows: Int[Tensor, " rows"]) -> Kept:
        """Keeps these rows of the batch."""
        self._storage = tuple(tensor.index_select(0, rows) for tensor in self._storage)
        return self


class Recurrent(State):
    """A summary of the past of a fixed size, and the last piece of the sequence position by position.

    For mixers that compute a sequence at once while training and go on from a running state while decoding:
    retention, gated linear attention, state space models. `project` returns the piece it is given; appending
    another folds the one before into the summary. `attend` reads both: the past through the summary, the
    piece itself in parallel (the chunkwise recurrent form of RetNet, Sun et al. 2023, equation 7:
    https://arxiv.org/abs/2307.08621). A whole sequence is one piece without a past, a step of decoding is a
    piece of one token. The queries given to `attend` are always the tokens of the piece.

    Padding must not move the summary: `project` sets what it keeps of padding so that `fold` is the identity
    there.

    Attributes:
        past: The summary, batch on axis 0; empty at the beginning of a sequence.
        piece: What `project` made of the last piece, batch on axis 0 and length on axis 1.
    """

    def __init__(
        self,
        *piece: Shaped[Tensor, "batch length ..."],
        past: tuple[Shaped[Tensor, "batch ..."], ...] = (),
    ) -> None:
        self.piece = piece
        self.past = past

    @abstractmethod
    def fold(self) -> tuple[Shaped[Tensor, "batch ..."], ...]:
        """Returns the summary `past` with the tokens of the piece added."""

    def append(self: Running, new: Running) -> Running:
        """Folds the piece into the past; the new one takes its place."""
        return type(self)(*new.piece, past=self.fold())

    def select(self: Running, rows: Int[Tensor, " rows"]) -> Running:
        """Keeps these rows of the batch."""
        piece, past = (
            tuple(tensor.index_select(0, rows) for tensor in tensors) for tensors in (self.piece, self.past)
        )
        return type(self)(*piece, past=past)


def _room(
    tensor: Shaped[Tensor, "batch capacity ..."], length: int, capacity: int
) -> Shaped[Tensor, "batch larger ..."]:
    """Returns a larger tensor that starts with the first `length` positions of `tensor`."""
    larger = tensor.new_empty(tensor.shape[0], capacity, *tensor.shape[2:])
    larger[:, :length] = tensor[:, :length]
    return larger


class Attention(nn.Module, ABC):
    """Attention in two steps, so that caching is a property of the core and every component has it.

    Full self-attention is `attend(x, project(x, positions), scope)`. Cross-attention projects the encoder's
    output once per sequence. Incremental decoding appends `project(x_t, positions)` to the state it keeps.

    What is kept decides the state. `PositionwiseState` holds something of each token. `Recurrent` is for
    mixers that decode from a summary of the past: `project` maps each token by itself, and `attend` does
    what depends on the tokens before. A state that drops old tokens keeps the positions of the others beside
    them and reads with `scope.over(kept)`.

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
        self, query: Float[Tensor, "batch query width"], state: State, scope: Scope
    ) -> Float[Tensor, "batch query width"]:
        """Returns the attention output of each query over the part of the state that the scope allows.

        Queries are rotated here with `scope.query.rotate(heads)`; masks and biases are the scope's.
        `softmax_attention` applies these for an attention that is built on a softmax.
        """
