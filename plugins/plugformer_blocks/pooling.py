"""From the hidden states of a sequence to one vector, wherever the padding is."""

from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor

Pooling = Annotated[
    Literal["first", "last", "max", "mean", "sum"],
    Field(description="How the hidden states of a sequence become one vector."),
]
"""An option of heads and architectures that pool: `first`, `last`, `max`, `mean` or `sum`."""


def pool(
    hidden: Float[Tensor, "batch length width"], real: Bool[Tensor, "batch length"], pooling: Pooling
) -> Float[Tensor, "batch width"]:
    """Returns for each sequence the first, last, largest, mean or summed value of its real tokens.

    The largest is that of each coordinate; of a sequence without tokens, the largest, mean and sum are 0.
    """
    if pooling in ("first", "last"):
        places = real.int().argmax(dim=1)
        if pooling == "last":
            places = real.shape[1] - 1 - real.flip(1).int().argmax(dim=1)
        return hidden[torch.arange(hidden.shape[0], device=hidden.device), places]
    if pooling == "max":
        largest = hidden.masked_fill(~real[..., None], -torch.inf).amax(dim=1)
        return largest.masked_fill(~real.any(dim=1, keepdim=True), 0.0)
    total = hidden.masked_fill(~real[..., None], 0.0).sum(dim=1)
    return total / real.sum(dim=1, keepdim=True).clamp(min=1) if pooling == "mean" else total
