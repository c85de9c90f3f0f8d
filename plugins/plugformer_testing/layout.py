"""Batches of different lengths: where real tokens and padding stand, and what they may be."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from plugformer.interfaces import Padding, PositionalEncoding, Positions


@dataclass(frozen=True)
class Layout:
    """Rows of a batch, drawn with x for a real token and . for padding.

    Attributes:
        rows: One for each sequence, all of the same length.
        padding: Where the padding is.
    """

    rows: tuple[str, ...]
    padding: Padding

    def __str__(self) -> str:
        return " / ".join(self.rows)

    @property
    def mask(self) -> Bool[Tensor, "batch length"]:
        """True for real tokens, False for padding."""
        return torch.tensor([[mark == "x" for mark in row] for row in self.rows])

    def at(self, encoding: PositionalEncoding) -> Positions:
        """Returns the positions of the tokens."""
        return Positions.of(self.mask, encoding, self.padding)


def full(batch: int, length: int) -> Layout:
    """Returns a batch without padding."""
    return Layout(("x" * length,) * batch, Padding.NONE)


FULL = (full(1, 1), full(1, 2), full(2, 7))
"""Without padding."""

PADDED = (
    Layout(("xx", "x."), Padding.RIGHT),
    Layout(("xx", ".x"), Padding.ANYWHERE),
    Layout(("xxxxx", "xxx..", "x...."), Padding.RIGHT),
    Layout(("xxxxx", "..xxx", "....x"), Padding.ANYWHERE),
    Layout((".xxx.", "xxxxx", "x.x.x"), Padding.ANYWHERE),
)
"""With padding on the right, on the left, and in other places."""

LAYOUTS = (*FULL[:2], *PADDED[:2], FULL[2], *PADDED[2:])
"""All, the smallest first."""


def example(*shape: int, dtype: torch.dtype) -> Float[Tensor, "..."]:
    """Returns the same irregular values each time, between -1.5 and 1.5."""
    numbers = torch.arange(math.prod(shape), dtype=torch.float64)
    return (1.5 * (1.7 * numbers + 0.1 * numbers.sqrt()).sin()).view(shape).to(dtype)
