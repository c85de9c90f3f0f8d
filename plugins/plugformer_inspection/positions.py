"""What a positional encoding does, seen through the three slots that positions alone decide about."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from plugformer.configuration import Task
from plugformer.interfaces import Model, Padding, PositionalEncoding, Positions, evaluating

MOST_POSITIONS = 64
"""Positions that are looked at: enough for the pattern, few enough to be seen one by one."""


@dataclass(frozen=True)
class EncodingView:
    """What an encoding does to the first positions; None for a slot that leaves everything as it is.

    Attributes:
        component: Name of its class.
        embed: What it adds to the embeddings.
        rotate: Where each basis vector of a head lies after the rotation to each position.
        bias: What it adds to the scores of each softmax map.
        owners: The parts of the model that read positions this way.
    """

    component: str
    embed: Float[Tensor, "length width"] | None
    rotate: Float[Tensor, "basis length head_width"] | None
    bias: Float[Tensor, "maps query key"] | None
    owners: list[str] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to see."""
        return self.embed is None and self.rotate is None and self.bias is None

    def same_as(self, other: "EncodingView") -> bool:
        """Whether another encoding does just the same."""
        return self.component == other.component and all(
            _equal(getattr(self, slot), getattr(other, slot)) for slot in ("embed", "rotate", "bias")
        )


def view_positions(model: Model, task: Task) -> list[EncodingView]:
    """Returns the different encodings of a model, without those that do nothing."""
    length = min(task.model.max_length, MOST_POSITIONS)
    head_width = max(2, task.model.width // task.model.heads // 2 * 2)  # rotations need an even one
    views: list[EncodingView] = []
    with evaluating(model):
        for owner, encoding in _encodings(model):
            found = view_encoding(encoding, length, task.model.width, head_width)
            view = next((known for known in views if known.same_as(found)), found)
            view.owners.append(owner)
            if view is found and not found.empty:
                views.append(found)
    return views


def view_encoding(encoding: PositionalEncoding, length: int, width: int, head_width: int) -> EncodingView:
    """Returns what an encoding does to the positions from 0 to `length`.

    Args:
        encoding: Any encoding, on any device.
        length: Number of positions.
        width: Width of the embeddings.
        head_width: Width of a query or key head.
    """
    device = next((parameter.device for parameter in encoding.parameters()), torch.device("cpu"))
    at = Positions.of(torch.ones(1, length, dtype=torch.bool, device=device), encoding, Padding.NONE)
    nothing = torch.zeros(1, length, width, device=device)
    basis = torch.eye(head_width, device=device)[None, :, None].expand(-1, -1, length, -1)
    with torch.no_grad():
        added = encoding.embed(nothing, at)[0]
        turned = encoding.rotate(basis, at)
        bias = encoding.bias(at, at)
    return EncodingView(
        type(encoding).__name__,
        embed=added.float().cpu() if added.any() else None,
        rotate=None if torch.equal(turned, basis) else turned[0].float().cpu(),
        bias=None if bias is None else bias[0].float().cpu(),
    )


def _encodings(model: Model) -> Iterator[tuple[str, PositionalEncoding]]:
    """Yields the encodings of a model's stacks, and what reads them."""
    for name, stack in model.stacks.items():
        yield name, cast("PositionalEncoding", stack.position)
        if (crossing := getattr(stack, "cross_position", None)) is not None:
            yield "cross-attention", crossing


def _equal(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return torch.equal(one, other)
