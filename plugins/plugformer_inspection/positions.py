"""What a positional encoding does, seen through the slots that positions alone decide about, and drawn."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

import torch
from jaxtyping import Float
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import normalize

from plugformer.configuration import Task
from plugformer.interfaces import Model, Padding, PositionalEncoding, Positions, evaluating
from plugformer_reports.drawing import SIGNED, Drawing, panels

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
    """Returns the effects of an encoding at the positions from 0 to `length`.

    Args:
        encoding: Any encoding, on any device.
        length: Number of positions.
        width: Width of the embeddings.
        head_width: Width of a query or key head.
    """
    device = next((parameter.device for parameter in encoding.parameters()), torch.device("cpu"))
    positions = Positions.of(torch.ones(1, length, dtype=torch.bool, device=device), encoding, Padding.NONE)
    nothing = torch.zeros(1, length, width, device=device)
    basis = torch.eye(head_width, device=device)[None, :, None].expand(-1, -1, length, -1)
    with torch.no_grad():
        added = encoding.embed(nothing, positions)[0]
        turned = encoding.rotate(basis, positions)
        bias = encoding.bias(positions, positions)
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


def draw_positions(view: EncodingView) -> Iterator[Drawing]:
    """Yields a figure for each slot that an encoding fills."""
    owners = " and ".join(view.owners)
    name = "positions-" + "-".join(owner.removesuffix("-attention") for owner in view.owners)
    title = f"{view.component}, {owners}"
    if view.embed is not None:
        caption = (
            "Left: what is added to the embeddings at each position. Right: cosine similarity of what is "
            "added at two positions."
        )
        yield Drawing(f"{name}-embed", f"Positions in the embeddings: {title}", caption, _embed(view.embed))
    if view.rotate is not None:
        caption = (
            "Left: what is left of each coordinate of a query or key head after its rotation, the cosine of "
            "the angle. Right: the same between two positions, as a mean over the coordinates."
        )
        yield Drawing(f"{name}-rotate", f"Rotation by position: {title}", caption, _rotate(view.rotate))
    if view.bias is not None:
        caption = "What is added to the score of a key at each distance from the query, by head."
        figure = _distances(view.bias) if _depends_on_distance(view.bias) else _pairs(view.bias)
        yield Drawing(f"{name}-bias", f"Bias on the scores: {title}", caption, figure)


def _embed(table: Float[Tensor, "length width"]) -> Figure:
    figure, left, right = _two_panels()
    _heat_map(left, table, "coordinate", "position", "added to the embedding")
    unit = normalize(table, dim=-1)
    _heat_map(right, unit @ unit.T, "position", "position", "cosine similarity", square=True)
    return figure


def _rotate(turned: Float[Tensor, "basis length head_width"]) -> Figure:
    figure, left, right = _two_panels()
    cosines = torch.diagonal(turned, dim1=0, dim2=2)  # (length, head_width)
    _heat_map(left, cosines, "coordinate of a head", "position", "cosine of the angle")
    between = torch.einsum("bqd,bkd->qk", turned, turned) / turned.shape[0]
    _heat_map(right, between, "position", "position", "mean cosine", square=True)
    return figure


def _two_panels() -> tuple[Figure, Axes, Axes]:
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    return figure, left, right


def _depends_on_distance(bias: Float[Tensor, "maps query key"]) -> bool:
    """Whether all pairs at one distance have one value."""
    return torch.allclose(bias[:, 1:, 1:], bias[:, :-1, :-1], atol=1e-6)


def _distances(bias: Float[Tensor, "maps query key"]) -> Figure:
    """Draws one line for each map over the distance from query to key."""
    figure, (axes,) = panels(1, 1, (7.2, 4.2))
    length = bias.shape[-1]
    values = torch.cat([bias[:, :, 0].flip(1), bias[:, 0, 1:]], dim=1)  # keys behind, then keys ahead
    colors = colormaps["viridis"](torch.linspace(0, 0.9, len(bias)).tolist())
    for head, (row, color) in enumerate(zip(values, colors, strict=True)):
        axes.plot(range(1 - length, length), row.tolist(), color=color, label=f"head {head}")
    axes.set_xlabel("position of the key minus position of the query")
    axes.set_ylabel("added to the score")
    figure.legend(loc="outside right upper")
    return figure


def _pairs(bias: Float[Tensor, "maps query key"]) -> Figure:
    """Draws one heat map for each map."""
    columns = min(4, len(bias))
    rows = -(-len(bias) // columns)
    figure = Figure(figsize=(3.2 * columns, 2.9 * rows), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for head, (axes, values) in enumerate(zip(panels, bias, strict=False)):
        _heat_map(axes, values, "key", "query", "added to the score", square=True)
        axes.set_title(f"head {head}")
    for axes in panels[len(bias) :]:
        axes.remove()
    return figure


def _heat_map(
    axes: Axes, values: Float[Tensor, "rows columns"], x: str, y: str, meaning: str, *, square: bool = False
) -> None:
    """Draws values between minus and plus the largest of them; zero is white."""
    finite = values[values.isfinite()]
    largest = finite.abs().max().item() if len(finite) else 1.0
    image = axes.imshow(
        values.numpy(),
        SIGNED,
        interpolation="none",
        aspect="equal" if square else "auto",
        vmin=-largest,
        vmax=largest,
    )
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.9)
    bar.set_label(meaning)
