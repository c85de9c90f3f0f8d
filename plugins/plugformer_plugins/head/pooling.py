"""Pooling: one vector for a sequence from the hidden states of its real tokens, wherever the padding is.

Heads over a whole sequence have in common that they map it to their outputs.

Where no token is real, sums, means and maxima are zero.
"""

from collections.abc import Callable
from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from plugformer.interfaces import Head, HeadContext, Level

Pooling = Annotated[
    Literal["first", "last", "max", "mean", "sum"],
    Field(description="How the hidden states of the real tokens become one vector."),
]
Hidden = Float[Tensor, "batch length width"]
Real = Bool[Tensor, "batch length"]
Vectors = Float[Tensor, "batch width"]


def first(hidden: Hidden, real: Real) -> Vectors:
    """Returns each sequence's first real token."""
    return _at(hidden, real.int().argmax(dim=1))


def last(hidden: Hidden, real: Real) -> Vectors:
    """Returns each sequence's last real token."""
    return _at(hidden, real.shape[1] - 1 - real.flip(1).int().argmax(dim=1))


def maximum(hidden: Hidden, real: Real) -> Vectors:
    """Returns the largest value of each coordinate over the real tokens."""
    largest = hidden.masked_fill(~real[..., None], -torch.inf).amax(dim=1)
    return largest.masked_fill(~real.any(dim=1, keepdim=True), 0.0)


def mean(hidden: Hidden, real: Real) -> Vectors:
    """Returns the mean of the real tokens."""
    return total(hidden, real) / real.sum(dim=1, keepdim=True).clamp(min=1)


def total(hidden: Hidden, real: Real) -> Vectors:
    """Returns the sum of the real tokens."""
    return hidden.masked_fill(~real[..., None], 0.0).sum(dim=1)


def _at(hidden: Hidden, index: Int[Tensor, " batch"]) -> Vectors:
    return hidden[torch.arange(len(hidden), device=hidden.device), index]


POOLINGS: dict[str, Callable[[Hidden, Real], Vectors]] = {
    "first": first,
    "last": last,
    "max": maximum,
    "mean": mean,
    "sum": total,
}


class Pooled(Head):
    """Pools the real tokens and maps to the outputs.

    Args:
        model: Sizes of the model and number of outputs.
        pooling: How the hidden states of a sequence become one vector.
        dropout: Rate on that vector.
    """

    levels = frozenset({Level.SEQUENCE})

    def __init__(
        self,
        model: HeadContext,
        *,
        pooling: Pooling = "mean",
        dropout: Annotated[float, Field(ge=0, lt=1, description="Rate on that vector.")] = 0.0,
    ) -> None:
        super().__init__()
        self.label_smoothing = model.label_smoothing
        self.pool = POOLINGS[pooling]
        self.hidden: nn.Module = nn.Identity()  # of those that pass no hidden layer
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(model.width, model.outputs)

    def logits(self, hidden: Hidden, real: Real) -> Float[Tensor, "batch outputs"]:
        """Returns the outputs of each sequence."""
        logits: Tensor = self.output(self.dropout(self.hidden(self.pool(hidden, real))))
        return logits
