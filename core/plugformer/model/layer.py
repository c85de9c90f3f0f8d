"""A layer: sublayers and the residual connection that joins them, their dropout, and the states they keep."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, TypeVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import dropout
from torch.utils.checkpoint import checkpoint

from plugformer.errors import RegistryError
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
from plugformer.interfaces.layer import Stream
from plugformer.model.watching import repetition

LEVELS = 2**16


class Dropout(nn.Module):
    """Zeroes a share `rate` of elements at random in training, and scales the others so that the mean stays.

    Srivastava et al. 2014, section 4: https://jmlr.org/papers/v15/srivastava14a.html. On a CPU, where random
    numbers are slow, one of 64 bits decides four elements, and the rate is rounded to 1/65,536.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Returns `x` as it is in evaluation mode, else with elements dropped."""
        if not self.training or self.rate == 0:
            return x
        if _has_fused_kernel(x):
            return dropout(x, self.rate)
        kept, scale = self._kept(x)
        return torch.mul(x, kept.mul_(scale))

    def added(self, x: Float[Tensor, "*shape"], y: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Returns `x + self(y)`, in one pass where that is possible."""
        if not self.training or self.rate == 0 or _has_fused_kernel(x):
            return torch.add(x, self(y) if self.training else y)
        kept, scale = self._kept(y)
        return torch.addcmul(x, y, kept, value=scale)

    def _kept(self, x: Float[Tensor, "*shape"]) -> tuple[Float[Tensor, "*shape"], float]:
        """Returns a mask of ones and zeros, and the scale of the elements that are kept."""
        dropped = min(round(self.rate * LEVELS), LEVELS - 1)
        numbers = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        levels = numbers.view(torch.int16)[: x.numel()].view(x.shape)
        # In place, because a comparison with a boolean result is not vectorized.
        return levels.ge_(dropped - LEVELS // 2).to(x.dtype), LEVELS / (LEVELS - dropped)


def _has_fused_kernel(x: Tensor) -> bool:
    return x.device.type != "cpu" or torch.compiler.is_compiling()


Kept = TypeVar("Kept", State, Positions)
Project = Callable[[], State]
Compute = Callable[[Tensor, Positions], Tensor]


@dataclass(eq=False)
class AttentionCache:
    """The state that one attention reads: its own, or that of its `owner`, the cache of a layer below.

    `project` returns the state of another stack's output, for cross-attention.
    """

    owner: "AttentionCache | None" = None
    project: Project | None = None

    def __post_init__(self) -> None:
        self._state: State | None = None
        self._shared = False
        self._positions: Positions | None = None
        if self.owner is not None:
            self.owner._shared = True

    def append(self, project: Project) -> State:
        """Appends the state of new tokens, unless the owner has; returns the state of all of them."""
        if self.owner is not None:
            return cast("State", self.owner._state)
        new = project()
        self._state = new if self._state is None else self._state.append(new)
        return self._state

    def extend(self, new: Positions) -> Positions:
        """Appends the positions of new tokens, for a layer that takes some; returns those of all."""
        self._positions = new if self._positions is None else self._positions.concatenate(new)
        return self._positions

    def source(self) -> State:
        """Returns the state of the other stack's output; the first call projects it."""
        state = (self.owner or self)._state
        return self.append(cast("Project", self.project)) if state is None else state

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Keeps these rows of the batch; does nothing if another layer holds the state."""
        if self.project is not None:
            self.source()
        self._state = None if self._state is None else self._state.select(rows)
        self._positions = None if self._positions is None else self._positions.select(rows)

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors of its state and its positions; none if another layer holds them."""
        if self.project is not None:
            self.source()
        kept = [part for part in (self._state, self._positions) if part is not None]
        return [tensor for part in kept for tensor in part.tensors]

    def rebuilt(self, tensors: Iterator[Tensor], owner: "AttentionCache | None") -> "AttentionCache":
        """Returns a cache of the same kind with the next of these tensors."""
        cache = AttentionCache(owner, self.project)
        cache._state = rebuilt(self._state, tensors)
        cache._positions = rebuilt(self._positions, tensors)
        return cache

    def emptied(self) -> "AttentionCache":
        """Returns an empty cache: a new one, or this one if other layers read its state."""
        if self.owner is None and not self._shared:
            return AttentionCache(project=self.project)
        self._state = None
        return self


def rebuilt(kept: Kept | None, tensors: Iterator[Tensor]) -> Kept | None:
    """Returns a state or positions of the same kind with the next of these tensors."""
    return None if kept is None else kept.rebuilt(tuple(islice(tensors, len(kept.tensors))))


def attention_caches(
    attentions: Sequence[Attention | None], projections: Sequence[Project | None]
) -> list[AttentionCache]:
    """Returns a cache for each layer's attention, if it has one; `projections` are of cross-attention."""
    caches: list[AttentionCache] = []
    for attention, project in zip(attentions, projections, strict=True):
        below = None if attention is None else attention.reads_layer
        caches.append(AttentionCache(None if below is None else caches[below], project))
    return caches


class Layer(nn.Module):
    """Self-attention, cross-attention if the stack reads another one, and a feed-forward network.

    The feed-forward network receives real tokens only. `dropout` is the rate on each sublayer's output.
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
        layers = {name: getattr(part, "reads_layer", None) for name, part in self.parts.items()}
        return {name: layer for name, layer in layers.items() if layer is not None}

    @property
    def parts(self) -> dict[str, Attention | FeedForward]:
        """The sublayers' components by name, in the order of computation."""
        parts = {
            "attention": self.attention,
            "cross_attention": self.cross_attention,
            "feed_forward": self.feed_forward,
        }
        return {name: part for name, part in parts.items() if part is not None}

    def forward(self, x: Stream, context: AttentionContext, *others: Any) -> Stream:
        """Returns the hidden states after this layer; for the arguments see `compute_layers`."""
        compiled = self.compiled if self.training and not context.observed else None
        return (compiled or Layer.compute)(self, x, context, *others)

    def compute(
        self,
        x: Tensor,
        context: AttentionContext,
        cache: AttentionCache | None = None,
        cross: AttentionContext | None = None,
        source: AttentionCache | None = None,
    ) -> Tensor:
        """Computes `forward` without compilation."""

        def attend_itself(hidden: Tensor, query: Positions) -> Tensor:
            project = partial(self.attention.project, hidden, query)
            state = project() if cache is None else cache.append(project)
            seen = context
            if self.residual.takes != "all":
                seen = replace(context, query=query, key=query if cache is None else cache.extend(query))
            elif query is not context.query:
                raise RegistryError(f"{type(self.residual).__name__} takes some tokens only; set its `takes`")
            return self.attention.attend(hidden, state, seen)

        def attend_source(hidden: Tensor, query: Positions) -> Tensor:
            reader, seen = cast("Attention", self.cross_attention), cast("AttentionContext", cross)
            if query is not context.query:
                query = query.with_encoding(seen.query.encoding)
                seen = replace(seen, query=query.beside(seen.key.mask.shape[0]))
            beside = hidden.reshape(*seen.query.mask.shape, -1)
            return reader.attend(beside, cast("AttentionCache", source).source(), seen).reshape(hidden.shape)

        compute: dict[str, Compute] = {"attention": attend_itself, "cross_attention": attend_source}
        compute["feed_forward"] = partial(at_real_tokens, self.feed_forward)
        sublayers = {
            name: Sublayer(partial(at_tokens, compute[name], context), self.dropout, context.query.mask)
            for name in self.parts
        }
        return cast("Tensor", self.residual(x, sublayers))


def at_tokens(compute: Compute, context: AttentionContext, hidden: Stream, tokens: Tensor | None) -> Stream:
    """Applies a sublayer to some tokens alone, moved together in order; elsewhere the result is zero."""
    query = context.query
    if tokens is None:
        return compute(hidden, query)
    tokens = tokens & query.mask
    if torch.compiler.is_exporting():  # the others are padding
        taken = replace(query, mask=tokens, padding=Padding.ANYWHERE)
        return compute(hidden, taken).masked_fill(~tokens[..., None], 0.0)
    least, most = torch.stack(tokens.sum(dim=1).aminmax()).tolist()
    if not most and context.key is not query:  # no token at this step of decoding
        return torch.zeros_like(hidden)
    slots = max(most, 1)
    columns = (~tokens).long().argsort(dim=1, stable=True)[:, :slots]
    index, real = query.index.expand_as(tokens).gather(1, columns), tokens.gather(1, columns)
    padding = Padding.NONE if least == slots else Padding.RIGHT
    marks = {name: mark.gather(1, columns) for name, mark in query.marks.items()}
    taken = Positions(index, real, padding, query.encoding, query.end, marks)
    rows = (columns + query.length * torch.arange(len(tokens), device=tokens.device)[:, None]).flatten()
    output = compute(unpad(hidden.flatten(0, 1), rows).view(len(tokens), slots, -1), taken)
    output = output.masked_fill(~real[..., None], 0.0).flatten(0, 1)
    return output.new_zeros(hidden.flatten(0, 1).shape).index_copy(0, rows, output).view(hidden.shape)


def at_real_tokens(network: FeedForward, x: Stream, positions: Positions) -> Stream:
    """Applies a network to the real tokens alone; at padding the result is zero."""
    tokens = x.flatten(0, 1)
    if positions.padding is Padding.NONE:
        everywhere: Tensor = network(tokens)
        return everywhere.reshape(x.shape)
    if torch.compiler.is_exporting():  # shapes must not depend on the mask
        return cast("Tensor", network(tokens)).reshape(x.shape).masked_fill(~positions.mask[..., None], 0.0)
    rows = real_rows(positions)
    output: Tensor = network(unpad(tokens, rows))
    return output.new_zeros(tokens.shape).index_copy(0, rows, output).view(x.shape)


def real_rows(positions: Positions) -> Int[Tensor, " tokens"]:
    """Returns the numbers of the real tokens' rows, batch and length being one axis."""
    return positions.cached("rows of real tokens", lambda: places_of(positions.mask))


def compute_layers(
    layers: Iterable[Layer],
    x: Stream,
    context: AttentionContext,
    caches: Iterable[AttentionCache | None],
    cross: AttentionContext | None,
    sources: Iterable[AttentionCache | None],
    *,
    recompute: bool,
) -> Stream:
    """Returns the hidden states after a stack of layers.

    Args:
        layers: From the first to the last.
        x: Hidden states of new tokens.
        context: From the new tokens to all tokens of the sequence so far.
        caches: The state of the tokens so far in each layer, if it is kept or shared.
        cross: From the new tokens to those of the other stack, if there is one to read.
        sources: The state of the other stack's output in each layer.
        recompute: Save only the inputs of layers, and compute each layer again in the backward pass (Chen et
            al. 2016, section 4: https://arxiv.org/abs/1604.06174); caches stay empty.
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
            inputs = (layer, x, context, cache, cross, source)
            x = checkpoint(_recomputed, *inputs, use_reentrant=False, context_fn=repetition(layer))
        else:
            x = layer(x, context, cache, cross, source)
    return x


def _recomputed(
    layer: Layer,
    x: Tensor,
    context: AttentionContext,
    cache: AttentionCache | None,
    cross: AttentionContext | None,
    source: AttentionCache | None,
) -> Tensor:
    """Returns the hidden states after a layer that has read nothing before, the same at every call."""
    return cast("Tensor", layer(x, context, cache and cache.emptied(), cross, source and source.emptied()))
