"""What a decoder keeps between steps, and any stack while its layers share states."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from jaxtyping import Bool, Int
from torch import Tensor

from plugformer.interfaces import Padding, PositionalEncoding, Positions, State

Project = Callable[[], State]


class AttentionCache:
    """The state that one attention reads: its own, or that of the same attention in a layer below.

    Args:
        owner: Holds the state, if another layer has it.
    """

    def __init__(self, owner: "AttentionCache | None" = None) -> None:
        self._owner = owner
        self._state: State | None = None
        self._shared = False
        if owner is not None:
            owner._shared = True

    @property
    def state(self) -> State | None:
        """The state so far."""
        return self._state if self._owner is None else self._owner.state

    def remember(self, project: Project) -> State:
        """Appends what is projected of new tokens, unless the owner has; returns the state of all of them."""
        if self._owner is None:
            new = project()
            self._state = new if self._state is None else self._state.append(new)
        return cast("State", self.state)

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Keeps these rows of the batch; of a state that another layer has, that layer keeps them."""
        self._state = None if self._state is None else self._state.select(rows)

    def emptied(self) -> "AttentionCache":
        """Returns a cache of nothing yet: a new one, or the same where other layers look for the state."""
        if self._owner is None and not self._shared:
            return AttentionCache()
        self._state = None
        return self


@dataclass(frozen=True)
class LayerCache:
    """One layer's states: of the source, projected once, and of the target tokens so far.

    Attributes:
        project: Returns the state of the source; None where a layer reads no source.
        past: Holds the state of the target tokens.
        read: Holds that of the source.
    """

    project: Project | None
    past: AttentionCache
    read: AttentionCache

    @property
    def source(self) -> State:
        """The state of the source, projected when a layer first reads it: forward does all the work."""
        state = self.read.state
        return self.read.remember(cast("Project", self.project)) if state is None else state

    def with_empty_past(self) -> "LayerCache":
        """Returns a cache of the same source that holds no target token and no projection yet."""
        return LayerCache(self.project, self.past.emptied(), self.read.emptied())

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Keeps these rows of the batch."""
        if self.project is not None:
            _ = self.source
        self.read.select(rows)
        self.past.select(rows)


class Cache:
    """The states of all layers, and the positions of target tokens so far and of the source, if any."""

    def __init__(self, layers: list[LayerCache], source: Positions | None = None) -> None:
        self.layers = layers
        self.source = source
        self.target: Positions | None = None

    def extend(
        self, real: Bool[Tensor, "batch new"], padding: Padding, encoding: PositionalEncoding
    ) -> tuple[Positions, Positions]:
        """Takes in new target tokens; returns their positions and those of all target tokens so far."""
        if self.target is None:
            self.target = Positions.of(real, encoding, padding)
            return self.target, self.target
        new = self.target.advance(real, padding)
        self.target = self.target.concatenate(new)
        return new, self.target

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Keeps these rows of the batch, in this order: beams, or sequences not finished yet."""
        for layer in self.layers:
            layer.select(rows)
        self.source = None if self.source is None else self.source.select(rows)
        self.target = None if self.target is None else self.target.select(rows)

    def reorder(self, rows: Int[Tensor, " rows"]) -> None:
        """Keeps rows that have the sources of the present ones, in their order: beams of one sentence.

        Nothing is copied of the sources, which are longer than the targets for most of the time.
        """
        for layer in self.layers:
            layer.past.select(rows)
        self.target = None if self.target is None else self.target.select(rows)
