"""The states that a stack of layers keeps: of a sequence between decoding steps, and of another stack."""

from collections.abc import Callable, Sequence
from typing import cast

from jaxtyping import Bool, Int
from torch import Tensor

from plugformer.interfaces import Attention, Padding, PositionalEncoding, Positions, State

Project = Callable[[], State]


class AttentionCache:
    """The state that one attention reads: its own, or that of the same attention in a layer below.

    Args:
        owner: The cache of the layer that holds the state, if another layer does.
        project: Returns the state of another stack's output, for cross-attention.
    """

    def __init__(self, owner: "AttentionCache | None" = None, project: Project | None = None) -> None:
        self._owner = owner
        self._project = project
        self._state: State | None = None
        self._shared = False
        if owner is not None:
            owner._shared = True

    def append(self, project: Project) -> State:
        """Appends the state of new tokens, unless the owner has; returns the state of all of them."""
        if self._owner is not None:
            return cast("State", self._owner._state)
        new = project()
        self._state = new if self._state is None else self._state.append(new)
        return self._state

    def source(self) -> State:
        """Returns the state of the other stack's output, which is projected at the first call."""
        state = (self._owner or self)._state
        return self.append(cast("Project", self._project)) if state is None else state

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Keeps these rows of the batch; a state of another layer is kept there."""
        if self._project is not None:
            self.source()
        self._state = None if self._state is None else self._state.select(rows)

    def emptied(self) -> "AttentionCache":
        """Returns an empty cache: a new one, or this one if other layers read its state."""
        if self._owner is None and not self._shared:
            return AttentionCache(project=self._project)
        self._state = None
        return self


def attention_caches(
    attentions: Sequence[Attention | None], projections: Sequence[Project | None]
) -> list[AttentionCache]:
    """Returns a cache for each layer's attention; attentions that share a state find it through them.

    Args:
        attentions: One of each layer, from the first to the last; None for layers without.
        projections: Return the state of another stack that each attention reads; None for self-attention.
    """
    caches: list[AttentionCache] = []
    for attention, project in zip(attentions, projections, strict=True):
        below = None if attention is None else attention.reads_layer
        caches.append(AttentionCache(None if below is None else caches[below], project))
    return caches


class Cache:
    """The states of all layers of a decoder, and the positions of its tokens and of those of the encoder.

    Attributes:
        targets: What each layer keeps of the target tokens so far.
        sources: What each layer keeps of the encoder's output.
        source: Positions of the encoder's tokens; None if the decoder reads no encoder.
        target: Positions of the target tokens so far; None before the first.
    """

    def __init__(
        self,
        targets: list[AttentionCache],
        sources: list[AttentionCache],
        source: Positions | None = None,
    ) -> None:
        self.targets = targets
        self.sources = sources
        self.source = source
        self.target: Positions | None = None

    def extend(
        self, mask: Bool[Tensor, "batch new"], padding: Padding, encoding: PositionalEncoding
    ) -> tuple[Positions, Positions]:
        """Takes in new target tokens; returns their positions and those of all target tokens so far."""
        if self.target is None:
            self.target = Positions.of(mask, encoding, padding)
            return self.target, self.target
        new = self.target.advance(mask, padding)
        self.target = self.target.concatenate(new)
        return new, self.target

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Keeps these rows of the batch, in this order: beams, or sequences not finished yet."""
        for cache in self.sources:
            cache.select(rows)
        self.source = None if self.source is None else self.source.select(rows)
        self.reorder(rows)

    def reorder(self, rows: Int[Tensor, " rows"]) -> None:
        """Keeps rows whose sources are those of the present rows, in their order: beams of one sentence.

        The sources are not copied. They are longer than the targets for most of the time.
        """
        for cache in self.targets:
            cache.select(rows)
        self.target = None if self.target is None else self.target.select(rows)
