"""Attention: how tokens read other tokens, what they may see, and the state that decoding keeps."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import TypeVar

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from plugformer.errors import NotExportableError
from plugformer.interfaces.position import Padding, Positions
from plugformer.interfaces.view import View


@dataclass(eq=False)
class AttentionContext:
    """The positions of queries and keys, and the masks between them; all layers of a stack share one.

    Masks are boolean and True means "may attend". Each tensor is computed at its first use.

    Attributes:
        query: Positions of the queries.
        key: Positions of the keys.
        view: Which keys a query sees, padding aside.
        cross: Whether queries and keys belong to two sequences, as in cross-attention.
        observer: Receives the name and the value of each tensor that attention records; None for no observer.
    """

    query: Positions
    key: Positions
    _: KW_ONLY
    view: View
    cross: bool = False
    observer: Callable[[str, Tensor], None] | None = None

    def over(self, key: Positions) -> "AttentionContext":
        """Returns the context of the same queries over other keys, of which only unseen ones may be missing.

        It is for a state that drops old tokens, such as a sliding window.
        """
        return replace(self, key=key)

    def prepare(self) -> None:
        """Computes the mask and the bias that layers share, outside of layers that are computed twice."""
        if not self.is_causal or self.bias is not None:
            _ = self.attn_mask

    @property
    def observed(self) -> bool:
        """Whether there is an observer. Attention then takes its plain path and records its weights."""
        return self.observer is not None

    def record(self, name: str, value: Tensor) -> None:
        """Passes a tensor to the observer, for example "weights" of shape (batch, heads, query, key)."""
        if self.observer is not None:
            self.observer(name, value)

    @cached_property
    def is_causal(self) -> bool:
        """The `is_causal` of scaled_dot_product_attention: True for whole sequences padded on the right."""
        return self.key.padding is not Padding.ANYWHERE and self.view.is_causal(self.query, self.key)

    @property
    def unmasked(self) -> bool:
        """Whether every query sees every key: there is no padding, and the view hides none."""
        return self.key.padding is Padding.NONE and self._allowed is None

    @cached_property
    def mask(self) -> Bool[Tensor, "#batch 1 #query key"]:
        """The attention mask, from padding and view: True where a query may attend to a key."""
        mask = self.key.mask[:, None, None, :]
        return mask if self._allowed is None else mask & self._allowed[:, None]

    @cached_property
    def _allowed(self) -> Bool[Tensor, "#batch query key"] | None:
        return self.view.allowed(self.query, self.key)

    @cached_property
    def bias(self) -> Float[Tensor, "#batch #maps query key"] | None:
        """The bias that the positional encoding adds to the scores, or None."""
        return self.query.encoding.bias(self.query, self.key)

    def content_bias(
        self,
        query_heads: Float[Tensor, "batch heads query head_width"],
        key_heads: Float[Tensor, "batch groups key head_width"],
    ) -> Float[Tensor, "#batch #heads query key"] | None:
        """Returns the positional encoding's bias of the products of these heads, or None."""
        return self.query.encoding.content_bias(query_heads, key_heads, self.query, self.key)

    @cached_property
    def attn_mask(
        self,
    ) -> Float[Tensor, "#batch #maps #query key"] | Bool[Tensor, "#batch 1 #query key"] | None:
        """The `attn_mask` of scaled_dot_product_attention: the mask, or the masked bias; None for neither."""
        if self.bias is None:
            return None if self.unmasked else self.mask
        return self.bias if self.unmasked else self.bias.masked_fill(~self.mask, -torch.inf)


AnyState = TypeVar("AnyState", bound="State")  # typing.Self, which beartype cannot check in methods


class State(ABC):
    """The output of `Attention.project`, for example keys and values, or a running sum.

    Both methods return the new state. They may reuse the storage of the old one, which is not used again.
    """

    @abstractmethod
    def append(self: AnyState, new: AnyState) -> AnyState:
        """Returns the state of the old tokens followed by the new ones."""

    @abstractmethod
    def select(self: AnyState, rows: Int[Tensor, " rows"]) -> AnyState:
        """Returns the state of these rows of the batch, in this order; a row may occur twice or never."""

    @property
    def tensors(self) -> tuple[Shaped[Tensor, "batch ..."], ...]:
        """All that later tokens read, for export; by default this raises NotExportableError."""
        raise NotExportableError(f"{type(self).__name__} is not made of tensors: it lacks `tensors`")

    def rebuilt(self: AnyState, tensors: Sequence[Shaped[Tensor, "batch ..."]]) -> AnyState:  # noqa: ARG002
        """Returns a state of the same kind with other `tensors`; by default it cannot."""
        raise NotExportableError(f"{type(self).__name__} is not made of tensors: it lacks `rebuilt`")


class Attention(nn.Module, ABC):
    """Attention in two steps, so that the core can cache the state of every component.

    Self-attention computes `attend(x, project(x, positions), context)`. Cross-attention projects the
    encoder's output once per sequence. Decoding appends `project(x_t, positions)` to the cached state.
    `plugformer_blocks` has two states: `PositionwiseState` keeps tensors of each token, and `Recurrent` keeps
    a summary of the past. A component is constructed as `SomeAttention(model, **options)` with a
    `ModelContext`.

    Attributes:
        residual_path: Names of the linear maps from the values to the residual stream, in order. Initial
            values that depend on the depth scale their matrices.
        reads_layer: Number of a layer below with the same attention whose state it reads instead of calling
            `project`; None for its own state.
    """

    residual_path: tuple[str, ...] = ("value", "output")
    reads_layer: int | None = None

    def follows(self, view: View) -> bool:  # noqa: ARG002 (a default)
        """Returns whether it sees what a view allows and nothing else; by default yes, by the context's mask.

        A mixer with a running state follows PAST alone. A model with another view is refused.
        """
        return True

    @abstractmethod
    def project(self, memory: Float[Tensor, "batch key width"], positions: Positions) -> State:
        """Returns the state that queries read; keys are rotated with `positions.rotate(heads)`.

        `project(cat(a, b))` must be equivalent to `project(a).append(project(b))`.
        """

    @abstractmethod
    def attend(
        self, query: Float[Tensor, "batch query width"], state: State, context: AttentionContext
    ) -> Float[Tensor, "batch query width"]:
        """Returns the output of each query over the part of the state that the context allows.

        Queries are rotated with `context.query.rotate(heads)`. `plugformer_blocks.softmax_attention` applies
        the masks and biases of the context.
        """
