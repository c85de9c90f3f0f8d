"""States of attentions: of all positions one by one, or a summary of the past."""

from abc import abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import TypeVar

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from plugformer.interfaces import State

Kept = TypeVar("Kept", bound="PositionwiseState")  # typing.Self, which beartype cannot check in methods
Running = TypeVar("Running", bound="Recurrent")


class PositionwiseState(State):
    """Tensors with the batch on axis 0 and the length on axis 1: one entry for each position.

    Right for every attention for which projecting a whole sequence equals projecting its pieces and
    concatenating them. Storage doubles when it is full, so that appending a token moves no old one.
    """

    def __init__(self, *tensors: Shaped[Tensor, "batch length ..."]) -> None:
        self._storage = tensors
        self._length = tensors[0].shape[1]

    @property
    def tensors(self) -> tuple[Shaped[Tensor, "batch length ..."], ...]:
        """The tensors given to the constructor, over the whole length so far."""
        if self._storage[0].shape[1] == self._length:
            return self._storage
        return tuple(tensor.narrow(1, 0, self._length) for tensor in self._storage)

    def rebuilt(self: Kept, tensors: Sequence[Shaped[Tensor, "batch length ..."]]) -> Kept:
        """Returns a state with other tensors and the same attributes besides."""
        state = copy(self)
        state._storage, state._length = tuple(tensors), tensors[0].shape[1]
        return state

    def append(self: Kept, new: Kept) -> Kept:
        """Writes the new positions behind the old ones, in place where there is room."""
        if torch.compiler.is_exporting():
            pairs = zip(self.tensors, new.tensors, strict=True)
            return self.rebuilt([torch.cat(pair, dim=1) for pair in pairs])
        length = self._length + new._length
        if length > self._storage[0].shape[1]:
            full = self.tensors
            self._storage = tuple(old.new_empty(len(old), 2 * length, *old.shape[2:]) for old in full)
            for storage, old in zip(self._storage, full, strict=True):
                storage[:, : self._length] = old
        for storage, tensor in zip(self._storage, new.tensors, strict=True):
            storage.narrow(1, self._length, new._length).copy_(tensor)
        self._length = length
        return self

    def select(self: Kept, rows: Int[Tensor, " rows"]) -> Kept:
        """Keeps these rows of the batch."""
        self._storage = tuple(tensor.index_select(0, rows) for tensor in self._storage)
        return self


class Recurrent(State):
    """A summary of the past of a fixed size, and the last piece of the sequence position by position.

    For mixers such as retention, gated linear attention and state space models. `project` returns the piece
    it is given; appending another folds the one before into the summary. `attend` reads both: the past
    through the summary, the piece itself in parallel (the chunkwise recurrent form of RetNet, Sun et al.
    2023, equation 7: https://arxiv.org/abs/2307.08621). A whole sequence is one piece without a past, a step
    of decoding is a piece of one token. The queries given to `attend` are always the tokens of the piece.

    `project` sets what it keeps of padding so that `fold` is the identity there.

    Attributes:
        past: The summary, batch on axis 0; empty at the beginning of a sequence.
        piece: What `project` made of the last piece, batch on axis 0 and length on axis 1.
    """

    def __init__(
        self, *piece: Shaped[Tensor, "batch length ..."], past: tuple[Shaped[Tensor, "batch ..."], ...] = ()
    ) -> None:
        self.piece = piece
        self.past = past

    @abstractmethod
    def fold(self) -> tuple[Shaped[Tensor, "batch ..."], ...]:
        """Returns the summary `past` with the tokens of the piece added."""

    @property
    def tensors(self) -> tuple[Shaped[Tensor, "batch ..."], ...]:
        """The summary of all tokens so far."""
        return self.fold() if self.piece else self.past

    def rebuilt(self: Running, tensors: Sequence[Shaped[Tensor, "batch ..."]]) -> Running:
        """Returns a state with this summary and no piece, to append one to."""
        return type(self)(past=tuple(tensors))

    def append(self: Running, new: Running) -> Running:
        """Folds the piece into the past; the new one takes its place."""
        return type(self)(*new.piece, past=self.tensors)

    def select(self: Running, rows: Int[Tensor, " rows"]) -> Running:
        """Keeps these rows of the batch."""
        piece = (tensor.index_select(0, rows) for tensor in self.piece)
        return type(self)(*piece, past=tuple(tensor.index_select(0, rows) for tensor in self.past))
