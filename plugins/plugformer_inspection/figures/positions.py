"""Figures of positional encodings: one for each slot that an encoding fills."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import normalize

from plugformer_inspection.positions import EncodingView
from plugformer_reports.drawing import SIGNED, Drawing

_SIZE = (9.6, 4.2)  # inches, of two panels side by side


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
    figure = Figure(figsize=_SIZE, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    _heat_map(left, table, "coordinate", "position", "added to the embedding")
    unit = normalize(table, dim=-1)
    _heat_map(right, unit @ unit.T, "position", "position", "cosine similarity", square=True)
    return figure


def _rotate(turned: Float[Tensor, "basis length head_width"]) -> Figure:
    figure = Figure(figsize=_SIZE, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    cosines = torch.diagonal(turned, dim1=0, dim2=2)  # (length, head_width)
    _heat_map(left, cosines, "coordinate of a head", "position", "cosine of the angle")
    between = torch.einsum("bqd,bkd->qk", turned, turned) / turned.shape[0]
    _heat_map(right, between, "position", "position", "mean cosine", square=True)
    return figure


def _depends_on_distance(bias: Float[Tensor, "maps query key"]) -> bool:
    """Whether all pairs at one distance have one value."""
    return torch.allclose(bias[:, 1:, 1:], bias[:, :-1, :-1], atol=1e-6)


def _distances(bias: Float[Tensor, "maps query key"]) -> Figure:
    """Draws one line for each map over the distance from query to key."""
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.subplots()
    length = bias.shape[-1]
    values = torch.cat([bias[:, :, 0].flip(1), bias[:, 0, 1:]], dim=1)  # keys behind, then keys ahead
    colors = colormaps["viridis"](torch.linspace(0, 0.9, len(bias)).tolist())
    for head, (row, color) in enumerate(zip(values, colors, strict=True)):
        axes.plot(range(1 - length, length), row.tolist(), color=color, label=f"head {head}")
    axes.set_xlabel("position of the key minus position of the query")
    axes.set_ylabel("added to the score")
    axes.grid(visible=True)
    axes.spines[["top", "right"]].set_visible(False)
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
