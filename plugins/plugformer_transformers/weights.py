"""How a tensor of Transformers corresponds to parameters here, in both directions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


class Conversion(NamedTuple):
    """An invertible change of a tensor: `inward` from Transformers to Plugformer, `outward` back."""

    inward: Callable[[Tensor], Tensor]
    outward: Callable[[Tensor], Tensor]


TRANSPOSED = Conversion(torch.t, torch.t)
"""Matrices of GPT-2 (`Conv1D`) are (inputs, outputs)."""

FIRST_ROW = Conversion(torch.flatten, lambda ours: ours[None])
"""A vector that is a matrix of one row there."""


def scaled(factor: float) -> Conversion:
    """Here the values are larger by a factor. Only a power of two comes back without rounding."""
    return Conversion(lambda theirs: theirs * factor, lambda ours: ours / factor)


def interleaved(axis: int, heads: int = 1) -> Conversion:
    """Halves along an axis become neighbors, in each of several heads.

    Of a head of width d, coordinates i and i + d/2 there are 2i and 2i + 1 here.
    """

    def exchanged(tensor: Tensor, *split: int) -> Tensor:
        parts: Tensor = tensor.unflatten(axis, (heads, *split))
        return parts.transpose(axis + 1, axis + 2).flatten(axis, axis + 2)

    return Conversion(lambda theirs: exchanged(theirs, 2, -1), lambda ours: exchanged(ours, -1, 2))


def table_rows(offset: int, rows: int) -> Conversion:
    """A table whose first rows nobody reads there, and which may be longer there."""
    return Conversion(
        lambda theirs: theirs[offset : offset + rows],
        lambda ours: torch.cat([ours.new_zeros(offset, *ours.shape[1:]), ours]),
    )


@dataclass(frozen=True)
class Vocabulary:
    """The numbers that tokens have there.

    Attributes:
        tokens: The number there of each token here; one number may occur several times.
        size: Number of tokens there.
    """

    tokens: Sequence[int]
    size: int

    @classmethod
    def of(cls, special: Sequence[int], size: int) -> "Vocabulary":
        """Returns that of a model with some size: here special tokens come first, then all others."""
        return cls([*special, *(number for number in range(size) if number not in special)], size)

    def inward(self, theirs: Tensor) -> Tensor:
        """Returns rows of tokens in their order here."""
        return theirs[torch.tensor(self.tokens)]

    def outward(self, ours: Tensor) -> Tensor:
        """Returns rows of tokens in their order there; of several for one token, the last."""
        rows = ours.new_zeros(self.size, *ours.shape[1:])
        for number, row in zip(self.tokens, ours, strict=True):
            rows[number] = row
        return rows


@dataclass(frozen=True)
class Weight:
    """A tensor of Transformers, and the parameters here that it consists of, in this order.

    Attributes:
        theirs: Its name.
        ours: Names of parameters; several are stacked along the first axis, after the conversions.
        conversions: What is done, from there to here.
    """

    theirs: str
    ours: tuple[str, ...]
    conversions: tuple[Conversion | Vocabulary, ...] = ()

    def inward(self, theirs: Tensor) -> dict[str, Tensor]:
        """Returns the parameters here by name."""
        for conversion in self.conversions:
            theirs = conversion.inward(theirs)
        parts = theirs.chunk(len(self.ours)) if len(self.ours) > 1 else [theirs]
        return {name: part.contiguous() for name, part in zip(self.ours, parts, strict=True)}

    def outward(self, ours: Sequence[Tensor]) -> Tensor:
        """Returns the tensor as Transformers has it."""
        theirs = torch.cat(list(ours)) if len(ours) > 1 else ours[0]
        for conversion in reversed(self.conversions):
            theirs = conversion.outward(theirs)
        return theirs.contiguous()
