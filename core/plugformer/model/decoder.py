"""The decoder: a stack of layers that continues a target sequence, in one piece or token by token."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, cast

from jaxtyping import Float, Int
from torch import Tensor

from plugformer.interfaces import EVERYTHING, Attention, AttentionContext, PositionalEncoding, Positions, View
from plugformer.interfaces.batch import Tokens
from plugformer.model.encoder import LayerStack, Memory
from plugformer.model.layer import AttentionCache, Layer, attention_caches, rebuilt


@dataclass(eq=False)
class Cache:
    """The states of all layers of a decoder, and the positions of its tokens and of those of the encoder.

    Attributes:
        targets: What each layer keeps of the target tokens so far.
        sources: What each layer keeps of the encoder's output.
        source: Positions of the encoder's tokens; None if the decoder reads no encoder.
        target: Positions of the target tokens so far; None before the first.
    """

    targets: list[AttentionCache]
    sources: list[AttentionCache]
    source: Positions | None = None
    target: Positions | None = field(default=None, init=False)

    def extend(self, tokens: Tokens, view: View, encoding: PositionalEncoding) -> tuple[Positions, Positions]:
        """Adds new target tokens; returns their positions and those of all target tokens so far."""
        new = view.positions(tokens, encoding, self.target)
        self.target = new if self.target is None else self.target.concatenate(new)
        return new, self.target

    def select(self, rows: Int[Tensor, " rows"], examples: Int[Tensor, " examples"] | None = None) -> None:
        """Keeps these rows of outputs, and these sources; None keeps all. See `Generative.begin`."""
        if examples is not None and self.source is not None:
            for cache in self.sources:
                cache.select(examples)
            self.source = self.source.select(examples)
        for cache in self.targets:
            cache.select(rows)
        self.target = None if self.target is None else self.target.select(rows)

    @property
    def tensors(self) -> list[Tensor]:
        """All that it keeps: states of the target tokens, of the encoder's, then the positions of both."""
        states = [tensor for cache in (*self.targets, *self.sources) for tensor in cache.tensors]
        positions = [at.tensors for at in (self.source, self.target) if at is not None]
        return [*states, *chain(*positions)]

    def rebuilt(self, tensors: Sequence[Tensor]) -> "Cache":
        """Returns a cache of the same kind with other `tensors`."""
        rest, made = iter(tensors), dict[AttentionCache | None, AttentionCache]()
        for cache in (*self.targets, *self.sources):
            made[cache] = cache.rebuilt(rest, made.get(cache.owner))
        new = Cache([made[cache] for cache in self.targets], [made[cache] for cache in self.sources])
        new.source, new.target = rebuilt(self.source, rest), rebuilt(self.target, rest)
        return new


class Decoder(LayerStack):
    """A stack that continues a sequence; both sides of cross-attention have `cross_position`.

    Training and decoding call `start`, then the decoder with all tokens or with one token at a time.
    """

    def __init__(self, *, cross_position: PositionalEncoding, **shared: Any) -> None:
        super().__init__(**shared)
        self.cross_position = cross_position

    def start(self, memory: Memory | None = None) -> Cache:
        """Returns an empty cache of a batch; `memory` is the input of cross-attention, if there is any."""
        layers = list(cast("Iterable[Layer]", self.layers))
        nothing = [None] * len(layers)
        targets = attention_caches([layer.attention for layer in layers], nothing)
        if memory is None:
            return Cache(targets, attention_caches(nothing, nothing))
        source = memory.positions.with_encoding(self.cross_position)
        readers = [cast("Attention", layer.cross_attention) for layer in layers]
        projections = [partial(reader.project, memory.hidden, source) for reader in readers]
        return Cache(targets, attention_caches(readers, projections), source)

    def forward(self, tokens: Tokens, cache: Cache) -> Float[Tensor, "batch length width"]:
        """Returns the hidden states of the next tokens; the cache then holds them too."""
        positions, so_far = cache.extend(tokens, self.view, self.position)
        context = AttentionContext(positions, so_far, view=self.view)
        cross = None
        if cache.source is not None:
            queries = positions.with_encoding(self.cross_position).beside(cache.source.mask.shape[0])
            cross = AttentionContext(queries, cache.source, view=EVERYTHING, cross=True)
        return self.compute(tokens, context, cache.targets, cross, cache.sources)
