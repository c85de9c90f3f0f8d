"""A layer: sublayers, and the residual connection that joins them; computed twice to save memory, or once."""

from collections.abc import Callable, Iterable
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
    State,
    Sublayer,
    places_of,
    unpad,
)
from plugformer.model.cache import AttentionCache
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
        cache: AttentionCache | None = None,
        cross: AttentionContext | None = None,
        source: AttentionCache | None = None,
    ) -> Float[Tensor, "batch length width"]:
        """Returns the hidden states after this layer; the cache then holds the tokens too.

        Args:
            x: Hidden states of new tokens.
            context: From the new tokens to all tokens of the sequence so far.
            cache: The state of the tokens so far; None if it is neither kept nor shared.
            cross: From the new tokens to those of the other stack, if there is one to read.
            source: The state of the other stack's output.
        """
        compiled = self.compiled if self.training and not context.observed else None
        return (compiled or Layer.compute)(self, x, context, cache, cross, source)

    def compute(
        self,
        x: Tensor,
        context: AttentionContext,
        cache: AttentionCache | None = None,
        cross: AttentionContext | None = None,
        source: AttentionCache | None = None,
    ) -> Tensor:
        """Returns what `forward` does, uncompiled."""

        def attend_itself(hidden: Tensor) -> Tensor:
            def project() -> State:
                return self.attention.project(hidden, context.query)

            state = project() if cache is None else cache.append(project)
            return self.attention.attend(hidden, state, context)

        sublayers = {"attention": Sublayer(attend_itself, self.dropout)}
        if (reader := self.cross_attention) is not None:
            read, seen = cast("AttentionCache", source), cast("AttentionContext", cross)
            sublayers["cross_attention"] = Sublayer(
                lambda hidden: reader.attend(hidden, read.source(), seen), self.dropout
            )
        sublayers["feed_forward"] = Sublayer(
            lambda hidden: at_real_tokens(self.feed_forward, hidden, context.query), self.dropout
        )
        output: Tensor = self.residual(x, sublayers)
        return output


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


def compute_layers(
    layers: Iterable[Layer],
    x: Float[Tensor, "batch length width"],
    context: AttentionContext,
    caches: Iterable[AttentionCache | None],
    cross: AttentionContext | None,
    sources: Iterable[AttentionCache | None],
    *,
    recompute: bool,
) -> Float[Tensor, "batch length width"]:
    """Returns the hidden states after a stack of layers.

    Args:
        layers: From the first to the last.
        x: Hidden states of new tokens.
        context: From the new tokens to all tokens of the sequence so far.
        caches: The state of the tokens so far in each layer, if it is kept or shared.
        cross: From the new tokens to those of the other stack, if there is one to read.
        sources: The state of the other stack's output in each layer.
        recompute: Keep nothing but the inputs of layers for the gradients, nor anything in the caches, and
            compute each layer again in the backward pass, with the same random numbers: Chen et al. 2016,
            section 4: https://arxiv.org/abs/1604.06174.
    """
    layers = list(layers)
    recompute = recompute and torch.is_grad_enabled()
    if recompute or any(layer.compiled and layer.training for layer in layers):
        real_rows(context.query)  # their number would be unknown to a compiler
        context.prepare()  # the backward pass computes again what is computed within a layer
        if cross is not None:
            cross.prepare()
    for layer, cache, source in zip(layers, caches, sources, strict=True):
        if recompute:
            compute = partial(_with_empty_caches, layer, context, cache, cross, source)
            x = checkpoint(compute, x, use_reentrant=False)
        else:
            x = layer(x, context, cache, cross, source)
    return x


def _with_empty_caches(
    layer: Layer,
    context: AttentionContext,
    cache: AttentionCache | None,
    cross: AttentionContext | None,
    source: AttentionCache | None,
    x: Tensor,
) -> Tensor:
    """Returns the hidden states after a layer that has read nothing before, the same at every call."""
    output: Tensor = layer(x, context, cache and cache.emptied(), cross, source and source.emptied())
    return output
