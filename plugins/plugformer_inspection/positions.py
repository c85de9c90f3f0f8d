"""What a positional encoding does: the three methods that depend on positions alone, computed and drawn."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, cast

import torch
from jaxtyping import Float
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import normalize

from plugformer.configuration import Task
from plugformer.interfaces import Model, PositionalEncoding, Positions, evaluating
from plugformer_cli.drawing import SIGNED, Drawing, panels

Aspect = Literal["equal", "auto"]

MAX_POSITIONS = 64
"""Number of positions that are drawn: enough for the pattern, few enough to be seen one by one."""


@dataclass(frozen=True)
class EncodingView:
    """What an encoding does to the first positions; None for a method that changes nothing.

    Attributes:
        component: Name of its class.
        embed: What it adds to the embeddings.
        rotate: Each basis vector of a head after the rotation to each position.
        bias: What it adds to the scores of each softmax map.
        owner: The part of the model that uses it.
    """

    component: str
    embed: Float[Tensor, "length width"] | None
    rotate: Float[Tensor, "basis length head_width"] | None
    bias: Float[Tensor, "maps query key"] | None
    owner: str = ""


def view_positions(model: Model, task: Task) -> list[EncodingView]:
    """Returns the encodings of a model, without those that do nothing."""
    length = min(task.model.max_length, MAX_POSITIONS)
    head_width = max(2, task.model.width // task.model.heads // 2 * 2)  # rotations need an even one
    encodings: list[tuple[str, PositionalEncoding]] = []
    for name, stack in model.stacks.items():
        encodings.append((name, cast("PositionalEncoding", stack.position)))
        if (cross := getattr(stack, "cross_position", None)) is not None:
            encodings.append(("cross-attention", cross))
    with evaluating(model):
        views = [
            replace(view_encoding(encoding, length, task.model.width, head_width), owner=owner)
            for owner, encoding in encodings
        ]
    return [view for view in views if any(each is not None for each in (view.embed, view.rotate, view.bias))]


def view_encoding(encoding: PositionalEncoding, length: int, width: int, head_width: int) -> EncodingView:
    """Returns the effects of an encoding at the positions from 0 to `length`."""
    device = next((parameter.device for parameter in encoding.parameters()), torch.device("cpu"))
    positions = Positions.of(length, encoding, device=device)
    zeros = torch.zeros(1, length, width, device=device)
    basis = torch.eye(head_width, device=device)[None, :, None].expand(-1, -1, length, -1)
    with torch.no_grad():
        added = encoding.embed(zeros, positions)[0]
        rotated = encoding.rotate(basis, positions)
        bias = encoding.bias(positions, positions)
    return EncodingView(
        type(encoding).__name__,
        embed=added.float().cpu() if added.any() else None,
        rotate=None if torch.equal(rotated, basis) else rotated[0].float().cpu(),
        bias=None if bias is None else bias[0].float().cpu(),
    )


def draw_positions(view: EncodingView) -> Iterator[Drawing]:
    """Yields a figure for each method that an encoding overrides."""
    name = f"positions-{view.owner}"
    title = f"{view.component}, {view.owner}"
    if view.embed is not None:
        caption = (
            "Left: the vector that is added to the embeddings at each position. Right: the cosine similarity "
            "of these vectors at two positions."
        )
        unit = normalize(view.embed, dim=-1)
        figure = _maps(
            (view.embed, "coordinate", "added to the embedding"), (unit @ unit.T, "cosine similarity")
        )
        yield Drawing(f"{name}-embed", f"Positions in the embeddings: {title}", caption, figure)
    if view.rotate is not None:
        caption = (
            "Left: the cosine of the angle by which each coordinate of a query or key head is rotated. "
            "Right: the same between two positions, as a mean over the coordinates."
        )
        cosines = torch.diagonal(view.rotate, dim1=0, dim2=2)  # (length, head_width)
        between = torch.einsum("bqd,bkd->qk", view.rotate, view.rotate) / len(view.rotate)
        figure = _maps((cosines, "coordinate of a head", "cosine of the angle"), (between, "mean cosine"))
        yield Drawing(f"{name}-rotate", f"Rotation by position: {title}", caption, figure)
    if view.bias is not None:
        caption = "The number that is added to the score of a key at each distance from the query, by head."
        yield Drawing(f"{name}-bias", f"Bias on the scores: {title}", caption, _biases(view.bias))


def _maps(
    coordinates: tuple[Float[Tensor, "length width"], str, str],
    pairs: tuple[Float[Tensor, "length length"], str],
) -> Figure:
    """Draws values by position and coordinate, and values by pairs of positions."""
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    values, name, meaning = coordinates
    _heat_map(left, values, name, "position", meaning, aspect="auto")
    _heat_map(right, pairs[0], "position", "position", pairs[1])
    return figure


def _biases(bias: Float[Tensor, "maps query key"]) -> Figure:
    """Draws a line for each map over the distance from query to key, or else a heat map for each."""
    if not torch.allclose(bias[:, 1:, 1:], bias[:, :-1, :-1], atol=1e-6):
        figure, grid = panels(len(bias), 4, (3.2, 2.9))
        for head, (axes, values) in enumerate(zip(grid, bias, strict=True)):
            axes.grid(visible=False)
            _heat_map(axes, values, "key", "query", "added to the score")
            axes.set_title(f"head {head}")
        return figure
    figure, (axes,) = panels(1, 1, (7.2, 4.2))
    length = bias.shape[-1]
    lines = torch.cat([bias[:, :, 0].flip(1), bias[:, 0, 1:]], dim=1)  # earlier keys, then later keys
    colors = colormaps["viridis"](torch.linspace(0, 0.9, len(bias)).tolist())
    for head, (row, color) in enumerate(zip(lines, colors, strict=True)):
        axes.plot(range(1 - length, length), row.tolist(), color=color, label=f"head {head}")
    axes.set_xlabel("position of the key minus position of the query")
    axes.set_ylabel("added to the score")
    figure.legend(loc="outside right upper")
    return figure


def _heat_map(
    axes: Axes, values: Float[Tensor, "rows columns"], x: str, y: str, meaning: str, aspect: Aspect = "equal"
) -> None:
    """Draws values on a scale from minus to plus the largest magnitude; zero is white."""
    finite = values[values.isfinite()]
    largest = finite.abs().max().item() if len(finite) else 1.0
    image = axes.imshow(
        values.numpy(), SIGNED, interpolation="none", aspect=aspect, vmin=-largest, vmax=largest
    )
    axes.set(xlabel=x, ylabel=y)
    axes.figure.colorbar(image, ax=axes, shrink=0.9).set_label(meaning)
