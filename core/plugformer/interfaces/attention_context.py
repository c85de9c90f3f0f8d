"""What attention may see in one call: the two sets of positions, the masks and the bias between them."""

from functools import cached_property
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from plugformer.interfaces.position import Padding, Positions


@runtime_checkable  # for beartype
class Observer(Protocol):
    """Receives what attention records, when somebody looks inside a model."""

    def record(self, name: str, value: Tensor) -> None:
        """Takes a named tensor, for example "weights" of shape (batch, heads, query, key)."""


class AttentionContext:
    """Query and key positions and what lies between them; built once per step, shared by all layers.

    Masks are boolean and True means "may attend". Every derived tensor is computed when first asked for, so
    that nothing of size (query, key) exists unless an encoding or a mask really needs it.

    Attributes:
        query: Positions of the queries.
        key: Positions of the keys.
        causal: Whether a query sees only keys at its own position or before.
        observer: Who receives what attention records, or None.
    """

    def __init__(
        self, query: Positions, key: Positions, *, causal: bool, observer: Observer | None = None
    ) -> None:
        self.query = query
        self.key = key
        self.causal = causal
        self.observer = observer

    def observed_by(self, observer: Observer) -> "AttentionContext":
        """Returns the same context, whose records go to an observer."""
        return AttentionContext(self.query, self.key, causal=self.causal, observer=observer)

    def over(self, key: Positions) -> "AttentionContext":
        """Returns the context of the same queries over other keys.

        For an attention whose state holds fewer positions than `key` lists: a window that drops old tokens
        keeps their positions beside them, and reads in their context.

        Args:
            key: Positions of the keys that are there; only those may be missing that no query sees.
        """
        return AttentionContext(self.query, key, causal=self.causal, observer=self.observer)

    def prepare(self) -> None:
        """Computes now what layers share: what kind of mask there is, and the bias and mask if they need one.

        Gradient checkpointing needs it before the first layer: the autograd graph of a learned bias must not
        begin within a layer that is computed twice. So does compilation: all layers then find the same, and
        no compiler has to trace what keeps it.
        """
        _ = self.unmasked
        if not self.is_causal or self.bias is not None:
            _ = self.attn_mask

    @property
    def cross(self) -> bool:
        """Whether queries and keys belong to two sequences: this is cross-attention.

        For attention that means something in its own sequence only, such as a window of near positions.
        """
        return not self.causal and self.query is not self.key

    @property
    def observed(self) -> bool:
        """Whether somebody looks: attention then takes its plain path and records its weights."""
        return self.observer is not None

    def record(self, name: str, value: Tensor) -> None:
        """Hands a tensor to the observer; does nothing when nobody looks."""
        if self.observer is not None:
            self.observer.record(name, value)

    @cached_property
    def is_causal(self) -> bool:
        """The `is_causal` of scaled_dot_product_attention: a causal mask from the top left corner suffices.

        True for whole sequences padded on the right: padding then comes after every real query. False for a
        step against a cache, where the last query sees all keys.
        """
        whole = self.query.length == self.key.length and self.query.index is self.key.index
        return self.causal and whole and self.key.padding is not Padding.ANYWHERE

    @cached_property
    def unmasked(self) -> bool:
        """Whether every query may see every key: no padding, and nothing lies in a query's future."""
        nothing_ahead = not self.causal or self.query.length == 1
        return self.key.padding is Padding.NONE and nothing_ahead

    @cached_property
    def mask(self) -> Bool[Tensor, "#batch 1 #query key"]:
        """The attention mask, from padding and causality: True where a query may attend to a key."""
        real = self.key.mask[:, None, None, :]
        if not self.causal:
            return real
        return real & (self.key.index[:, None, None, :] <= self.query.index[:, None, :, None])

    @cached_property
    def bias(self) -> Float[Tensor, "#batch #maps query key"] | None:
        """What the positional encoding adds to the scores, or None."""
        return self.query.encoding.bias(self.query, self.key)

    def content_bias(
        self,
        query_heads: Float[Tensor, "batch heads query head_width"],
        key_heads: Float[Tensor, "batch groups key head_width"],
    ) -> Float[Tensor, "#batch #heads query key"] | None:
        """Returns the positional encoding's bias of the products of these heads, or None.

        It differs from layer to layer, so nothing is kept. An attention with a softmax asks.
        """
        return self.query.encoding.content_bias(query_heads, key_heads, self.query, self.key)

    @cached_property
    def attn_mask(
        self,
    ) -> Float[Tensor, "#batch #maps #query key"] | Bool[Tensor, "#batch 1 #query key"] | None:
        """The `attn_mask` of scaled_dot_product_attention: mask and bias in one, None where there are none.

        Boolean when there is no bias, else the bias with minus infinity where attention is not allowed.
        """
        if self.bias is None:
            return None if self.unmasked else self.mask
        return self.bias if self.unmasked else self.bias.masked_fill(~self.mask, -torch.inf)
