"""What a decoder keeps between steps."""

from collections.abc import Callable
from functools import cached_property
from typing import cast

from jaxtyping import Bool, Int
from torch import Tensor

from plugformer.interfaces import Padding, PositionalEncoding, Positions, State


class LayerCache:
    """One layer's states: of the source, projected once, and of the target tokens so far.

    Args:
        project: Returns the state of the source; None where a layer reads no source.
    """

    def __init__(self, project: Callable[[], State] | None = None) -> None:
        self._project = project
        self.past: State | None = None

    @cached_property
    def source(self) -> State:
        """The state of the source, projected when a layer first reads it: forward does all the work."""
        return cast("Callable[[], State]", self._project)()

    def with_empty_past(self) -> "LayerCache":
        """Returns a cache of the same source that holds no target token and no projection yet."""
        return LayerCache(self._project)

    def remember(self, new: State) -> State:
        """Appends new target tokens and returns the state of all of them."""
        self.past = new if self.past is None else self.past.append(new)
        return self.past

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Keeps these rows of the batch."""
        if self._project is not None:
            self.source = self.source.select(rows)
        self.reorder(rows)

    def reorder(self, rows: Int[Tensor, " rows"]) -> None:
        """Moves what was made of the target tokens; every row keeps its source."""
        self.past = None if self.past is None else self.past.select(rows)


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
        new = self.target.following(real, padding)
        self.target = self.target.then(new)
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
            layer.reorder(rows)
        self.target = None if self.target is None else self.target.select(rows)
