"""A layer: sublayers, and the residual connection that joins them; computed twice to save memory, or once."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from plugformer.interfaces import (
    Attention,
    AttentionContext,
    FeedForward,
    Padding,
    Positions,
    Residual,
    Sublayer,
    places_of,
    unpad,
)
from plugformer.model.cache import AttentionCache, LayerCache, Project
from plugformer.model.dropout import Dropout


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
        self.compiled: Callable[..., Tensor] | None = None  # of training; evaluation computes uncompiled
        self.attention = attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.residual = residual
        self.dropout = Dropout(dropout)

    @property
    def reads_layers(self) -> dict[str, int]:
        """The layers below whose states its attentions read, by the attention's name."""
        found = {name: getattr(part, "reads_layer", None) for name, part in self.parts.items()}
        return {name: layer for name, layer in found.items() if layer is not None}

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
        context: AttentionContext,
        cache: LayerCache | None = None,
        cross: AttentionContext | None = None,
    ) -> Float[Tensor, "batch length width"]:
        """Returns the hidden states after this layer; the cache then holds the tokens too.

        Args:
            x: Hidden states of new tokens.
            context: From the new tokens to all tokens of the sequence so far.
            cache: What this layer keeps of the tokens before and of the other stack, and where it finds
                states of other layers; None where nothing is kept, read or shared.
            cross: From the new tokens to those of the other stack, if there is one to read.
        """
        compiled = self.compiled if self.training and not context.observed else None
        return (compiled or Layer.compute)(self, x, context, cache, cross)

    def compute(
        self,
        x: Tensor,
        context: AttentionContext,
        cache: LayerCache | None = None,
        cross: AttentionContext | None = None,
    ) -> Tensor:
        """Returns what `forward` does, uncompiled."""
        sublayers: dict[str, Sublayer] = {
            "attention": WithDropout(lambda hidden: self._read_itself(hidden, context, cache), self.dropout)
        }
        if (reader := self.cross_attention) is not None:
            kept, seen = cast("LayerCache", cache), cast("AttentionContext", cross)
            sublayers["cross_attention"] = WithDropout(
                lambda hidden: reader.attend(hidden, kept.source, seen), self.dropout
            )
        sublayers["feed_forward"] = WithDropout(
            lambda hidden: at_real_tokens(self.feed_forward, hidden, context.query), self.dropout
        )
        output: Tensor = self.residual(x, sublayers)
        return output

    def _read_itself(
        self, hidden: Float[Tensor, "batch length width"], context: AttentionContext, cache: LayerCache | None
    ) -> Float[Tensor, "batch length width"]:
        if cache is None:
            state = self.attention.project(hidden, context.query)
        else:
            state = cache.past.remember(lambda: self.attention.project(hidden, context.query))
        return self.attention.attend(hidden, state, context)


class WithDropout(Sublayer):
    """A sublayer for one call of its layer."""

    def __init__(self, compute: Callable[[Tensor], Tensor], dropout: Dropout) -> None:
        self.compute = compute
        self.dropout = dropout

    def __call__(self, hidden: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch length width"]:
        """Returns the sublayer's output, after dropout."""
        output: Tensor = self.dropout(self.compute(hidden))
        return output

    def added(
        self, x: Float[Tensor, "batch length width"], hidden: Float[Tensor, "batch length width"]
    ) -> Float[Tensor, "batch length width"]:
        """Returns the sum in one pass."""
        return self.dropout.added(x, self.compute(hidden))


def at_real_tokens(
    network: FeedForward, x: Float[Tensor, "batch length width"], positions: Positions
) -> Float[Tensor, "batch length width"]:
    """Applies a network to the real tokens alone; at padding the result is zero."""
    tokens = x.flatten(0, 1)
    if positions.padding is Padding.NONE:
        everywhere: Tensor = network(tokens)
        return everywhere.reshape(x.shape)
    rows = real_rows(positions)
    output: Tensor = network(unpad(tokens, rows))
    return output.new_zeros(tokens.shape).index_copy(0, rows, output).view(x.shape)


def real_rows(positions: Positions) -> Int[Tensor, " tokens"]:
    """Returns the numbers of the real tokens' rows, batch and length being one axis."""
    return positions.cached("rows of real tokens", lambda: places_of(positions.mask))


def layer_caches(
    layers: Iterable[Layer], projections: Sequence[Project | None] | None = None
) -> list[LayerCache]:
    """Returns a cache for each layer of a stack, and lets attentions find the states that they share.

    Args:
        layers: From the first to the last.
        projections: Return the state of the source that each layer reads; none where they read none.
    """
    pasts: list[AttentionCache] = []
    sources: list[AttentionCache] = []
    for layer in layers:
        pasts.append(_cache(layer.attention, pasts))
        sources.append(_cache(layer.cross_attention, sources))
    projects = [None] * len(pasts) if projections is None else projections
    return [LayerCache(*each) for each in zip(projects, pasts, sources, strict=True)]


def _cache(attention: Attention | None, below: Sequence[AttentionCache]) -> AttentionCache:
    shared = None if attention is None else attention.reads_layer
    return AttentionCache(None if shared is None else below[shared])


def compute_layers(
    layers: Iterable[Layer],
    x: Float[Tensor, "batch length width"],
    context: AttentionContext,
    caches: Iterable[LayerCache | None],
    cross: AttentionContext | None = None,
    *,
    recompute: bool,
) -> Float[Tensor, "batch length width"]:
    """Returns the hidden states after a stack of layers.

    Args:
        layers: From the first to the last.
        x: Hidden states of new tokens.
        context: As of `Layer`.
        caches: One of each layer.
        cross: As of `Layer`.
        recompute: Keep nothing but the inputs of layers for the gradients, nor anything in the caches, and
            compute each layer again in the backward pass, with the same random numbers: Chen et al. 2016,
            section 4: https://arxiv.org/abs/1604.06174.
    """
    layers = list(layers)
    recompute = recompute and torch.is_grad_enabled()
    if recompute or any(layer.compiled and layer.training for layer in layers):
        real_rows(context.query)  # their number would be unknown to a compiler
        for each in (
            context,
            cross,
        ):  # what is computed within a layer is computed again in its backward pass
            if each is not None:
                each.prepare()
    if not recompute:
        for layer, cache in zip(layers, caches, strict=True):
            x = layer(x, context, cache, cross)
        return x
    for layer, cache in zip(layers, caches, strict=True):
        x = checkpoint(partial(_with_empty_past, layer, context, cache, cross), x, use_reentrant=False)
    return x


def _with_empty_past(
    layer: Layer,
    context: AttentionContext,
    cache: LayerCache | None,
    cross: AttentionContext | None,
    x: Tensor,
) -> Tensor:
    """Returns the hidden states after a layer that has read nothing before, the same at every call."""
    output: Tensor = layer(x, context, None if cache is None else cache.with_empty_past(), cross)
    return output
