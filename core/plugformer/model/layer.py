"""A layer: sublayers, and the residual connection that joins them; computed twice to save memory, or once."""

from collections.abc import Callable
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from plugformer.interfaces import (
    Attention,
    FeedForward,
    Padding,
    Positions,
    Residual,
    Scope,
    Sublayer,
    unpad,
)
from plugformer.model.cache import LayerCache
from plugformer.model.dropout import Dropout

Hidden = Float[Tensor, "batch length width"]


class Layer(nn.Module):
    """Self-attention, attention to another stack if there is one to read, and a feed-forward network.

    Args:
        attention: Reads the sequence itself.
        cross_attention: Reads another stack; None where there is none.
        feed_forward: Sees real tokens only.
        residual: Joins them.
        dropout: Rate on the output of each.
    """

    def __init__(
        self,
        *,
        attention: Attention,
        cross_attention: Attention | None = None,
        feed_forward: FeedForward,
        residual: Residual,
        dropout: float,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.residual = residual
        self.dropout = Dropout(dropout)

    @property
    def shares(self) -> bool:
        """Whether one of its attentions reads the state of a layer below."""
        parts = (self.attention, self.cross_attention)
        return any(part is not None and part.reads_layer is not None for part in parts)

    @property
    def parts(self) -> dict[str, Attention | FeedForward]:
        """The sublayers' components by name, in the order of computation."""
        parts = {
            "attention": self.attention,
            "cross_attention": self.cross_attention,
            "feed_forward": self.feed_forward,
        }
        return {name: part for name, part in parts.items() if part is not None}

    def forward(
        self,
        x: Float[Tensor, "batch length width"],
        scope: Scope,
        cache: LayerCache | None = None,
        cross: Scope | None = None,
    ) -> Float[Tensor, "batch length width"]:
        """Returns the hidden states after this layer; the cache then holds the tokens too.

        Args:
            x: Hidden states of new tokens.
            scope: From the new tokens to all tokens of the sequence so far.
            cache: What this layer keeps of the tokens before and of the other stack, and where it finds
                states of other layers; None where nothing is kept, read or shared.
            cross: From the new tokens to those of the other stack, if there is one to read.
        """
        sublayers: dict[str, Sublayer] = {
            "attention": _WithDropout(lambda hidden: self._read_itself(hidden, scope, cache), self.dropout)
        }
        if (reader := self.cross_attention) is not None:
            kept, seen = cast("LayerCache", cache), cast("Scope", cross)
            sublayers["cross_attention"] = _WithDropout(
                lambda hidden: reader.attend(hidden, kept.source, seen), self.dropout
            )
        sublayers["feed_forward"] = _WithDropout(
            lambda hidden: at_real_tokens(self.feed_forward, hidden, scope.query), self.dropout
        )
        output: Tensor = self.residual(x, sublayers)
        return output

    def _read_itself(
        self, hidden: Float[Tensor, "batch length width"], scope: Scope, cache: LayerCache | None
    ) -> Float[Tensor, "batch length width"]:
        if cache is None:
            state = self.attention.project(hidden, scope.query)
        else:
            state = cache.remember(lambda: self.attention.project(hidden, scope.query))
        return self.attention.attend(hidden, state, scope)


def with_empty_past(
    x: Float[Tensor, "batch length width"],
    layer: Layer,
    scope: Scope,
    cache: LayerCache | None,
    cross: Scope | None = None,
) -> Float[Tensor, "batch length width"]:
    """Returns the hidden states after a layer that has read nothing before, the same at every call."""
    output: Tensor = layer(x, scope, None if cache is None else cache.with_empty_past(), cross)
    return output


class _WithDropout(Sublayer):
    """A sublayer for one call of its layer."""

    def __init__(self, compute: Callable[[Tensor], Tensor], dropout: Dropout) -> None:
        self.compute = compute
        self.dropout = dropout

    def __call__(self, hidden: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch length width"]:
        output: Tensor = self.dropout(self.compute(hidden))
        return output

    def added(
        self, x: Float[Tensor, "batch length width"], hidden: Float[Tensor, "batch length width"]
    ) -> Float[Tensor, "batch length width"]:
        return self.dropout.added(x, self.compute(hidden))


def at_real_tokens(
    network: FeedForward, x: Float[Tensor, "batch length width"], positions: Positions
) -> Float[Tensor, "batch length width"]:
    """Applies a network to the real tokens alone; at padding the result is zero."""
    tokens = x.flatten(0, 1)
    if positions.padding is Padding.NONE:
        everywhere: Tensor = network(tokens)
        return everywhere.reshape(x.shape)
    rows = positions.cached("rows of real tokens", lambda: positions.real.flatten().nonzero().squeeze(1))
    output: Tensor = network(unpad(tokens, rows))
    return output.new_zeros(tokens.shape).index_copy(0, rows, output).view(x.shape)


def wanted(stack: nn.Module, *, recompute: bool) -> bool:
    """Returns whether a stack's layers are to be computed twice: only where gradients will be."""
    return recompute and stack.training and torch.is_grad_enabled()


def recomputed(layer: Callable[..., Hidden], x: Hidden, *further: object) -> Hidden:
    """Returns `layer(x, *further)` of which nothing but `x` is kept for the gradients.

    Chen et al. 2016, section 4: https://arxiv.org/abs/1604.06174. Random numbers are drawn as they were.

    Args:
        layer: Computes the same whenever it is called, and leaves nothing behind that the next call finds.
        x: The hidden states before it.
        further: Its other arguments. What they compute lazily must be there already if it needs gradients
            (`Scope.prepare`): what is computed within a layer is computed again within its backward pass.
    """
    output: Hidden = checkpoint(layer, x, *further, use_reentrant=False)
    return output
