"""How a tensor of Transformers corresponds to parameters here, in both directions."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


class Step(ABC):
    """An invertible change of a tensor."""

    @abstractmethod
    def inward(self, theirs: Tensor) -> Tensor:
        """Returns the tensor as it is here."""

    @abstractmethod
    def outward(self, ours: Tensor) -> Tensor:
        """Returns the tensor as Transformers has it."""


class Transposed(Step):
    """Matrices of GPT-2 (`Conv1D`) are (inputs, outputs)."""

    def inward(self, theirs: Tensor) -> Tensor:
        """Returns the transposed matrix."""
        return theirs.T

    def outward(self, ours: Tensor) -> Tensor:
        """Returns the transposed matrix."""
        return ours.T


@dataclass(frozen=True)
class Interleaved(Step):
    """Halves along an axis become neighbors, in each of several heads.

    Of a head of width d, coordinates i and i + d/2 there are 2i and 2i + 1 here.
    """

    axis: int
    heads: int = 1

    def inward(self, theirs: Tensor) -> Tensor:
        """Returns the tensor with neighbors."""
        split: Tensor = theirs.unflatten(self.axis, (self.heads, 2, -1))
        return split.transpose(self.axis + 1, self.axis + 2).flatten(self.axis, self.axis + 2)

    def outward(self, ours: Tensor) -> Tensor:
        """Returns the tensor with halves."""
        split: Tensor = ours.unflatten(self.axis, (self.heads, -1, 2))
        return split.transpose(self.axis + 1, self.axis + 2).flatten(self.axis, self.axis + 2)


@dataclass(frozen=True)
class Scaled(Step):
    """Here the values are larger by a factor. Only a power of two comes back without rounding."""

    factor: float

    def inward(self, theirs: Tensor) -> Tensor:
        """Returns the product."""
        return theirs * self.factor

    def outward(self, ours: Tensor) -> Tensor:
        """Returns the quotient."""
        return ours / self.factor


@dataclass(frozen=True)
class Shifted(Step):
    """A table whose first rows nobody reads there, and which may be longer there."""

    offset: int
    rows: int

    def inward(self, theirs: Tensor) -> Tensor:
        """Returns the rows that are read."""
        return theirs[self.offset : self.offset + self.rows]

    def outward(self, ours: Tensor) -> Tensor:
        """Returns the table with rows of zeros in front."""
        return torch.cat([ours.new_zeros(self.offset, *ours.shape[1:]), ours])


class FirstRow(Step):
    """A vector that is a matrix of one row there."""

    def inward(self, theirs: Tensor) -> Tensor:
        """Returns the row."""
        return theirs.flatten()

    def outward(self, ours: Tensor) -> Tensor:
        """Returns the matrix."""
        return ours[None]


@dataclass(frozen=True)
class Vocabulary(Step):
    """Rows of tokens, which have other numbers there.

    Attributes:
        tokens: The number there of each token here; one number may occur several times.
        size: Number of tokens there.
    """

    tokens: Sequence[int]
    size: int

    def inward(self, theirs: Tensor) -> Tensor:
        """Returns the rows in the order of the tokens here."""
        return theirs[torch.tensor(self.tokens)]

    def outward(self, ours: Tensor) -> Tensor:
        """Returns the rows in the order of the tokens there; of several for one token, the last."""
        rows = ours.new_zeros(self.size, *ours.shape[1:])
        for number, row in zip(self.tokens, ours, strict=True):
            rows[number] = row
        return rows


@dataclass(frozen=True)
class Weight:
    """A tensor of Transformers, and the parameters here that it consists of, in this order.

    Attributes:
        theirs: Its name.
        ours: Names of parameters; several are stacked along the first axis, after the steps.
        steps: What changes, from there to here.
    """

    theirs: str
    ours: tuple[str, ...]
    steps: tuple[Step, ...] = ()

    def inward(self, theirs: Tensor) -> dict[str, Tensor]:
        """Returns the parameters here by name."""
        for step in self.steps:
            theirs = step.inward(theirs)
        parts = theirs.chunk(len(self.ours)) if len(self.ours) > 1 else [theirs]
        return {name: part.contiguous() for name, part in zip(self.ours, parts, strict=True)}

    def outward(self, ours: Sequence[Tensor]) -> Tensor:
        """Returns the tensor as Transformers has it."""
        theirs = torch.cat(list(ours)) if len(ours) > 1 else ours[0]
        for step in reversed(self.steps):
            theirs = step.outward(theirs)
        return theirs.contiguous()
