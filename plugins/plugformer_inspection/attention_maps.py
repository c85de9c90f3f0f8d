"""Figures of attention weights: one for each attention of each layer, with a panel for each head."""

import math
from collections.abc import Iterable, Iterator, Sequence
from unicodedata import east_asian_width

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from plugformer.errors import ConfigurationError
from plugformer_cli.drawing import STRENGTH, Drawing
from plugformer_inspection.attention import AttentionView

MAX_TOKENS = 48
"""Tokens of either axis that are drawn; the caption says when there are more."""

MAX_LAYERS = 4
"""Layers of a stack that are drawn by default."""

_KINDS = {
    ("encoder", "self"): "Encoder self-attention",
    ("decoder", "self"): "Decoder self-attention",
    ("decoder", "cross"): "Cross-attention",
}
_WIDEST = 13.0  # inches, of all panels in a row
_CELL, _LARGE_CELL = 0.115, 0.28  # inches, of one weight: as small as its label allows; as large as useful
_GAP, _TITLE, _BAR = 0.2, 0.3, 0.75  # inches: between panels, above each, and for the color bar
_LEAST_BAR = 1.2  # inches, of the color bar's length
_LEAST_PANEL = 1.9  # inches; a panel of few tokens has larger cells
_FONT = 7.0  # points, of a token
_LONGEST = 12.0  # ems, of a token that is shown whole


def draw_attention(views: Iterable[AttentionView]) -> Iterator[Drawing]:
    """Yields a figure for each attention that recorded its weights."""
    for view in views:
        if view.weights is None:
            continue
        stack, layer, kind = view.place
        caption = "Each row shows the weights with which a token reads the tokens of the columns."
        longest = max(len(view.query), len(view.key))
        if longest > MAX_TOKENS:
            caption += f" The first {MAX_TOKENS} of {longest} tokens are drawn."
        name = f"attention-{stack}-{kind}-layer-{layer}"
        yield Drawing(name, title_of(view), caption, _figure(view, view.weights))


def select_layers(views: Sequence[AttentionView], layers: Sequence[int]) -> list[AttentionView]:
    """Returns the attentions in some layers; by default `MAX_LAYERS` of each stack, evenly spread.

    Raises:
        ConfigurationError: No stack has such a layer.
    """
    depths = {view.place.stack: view.place.layer + 1 for view in views}
    deepest = max(depths.values()) - 1
    if max(layers, default=0) > deepest:
        raise ConfigurationError(
            f"--layer {max(layers)}: no such layer; expected a number from 0 to {deepest}"
        )
    wanted = {
        stack: set(layers) or {round(layer) for layer in np.linspace(0, depth - 1, min(depth, MAX_LAYERS))}
        for stack, depth in depths.items()
    }
    return [view for view in views if view.place.layer in wanted[view.place.stack]]


def title_of(view: AttentionView) -> str:
    """Returns a heading: which attention, and its class."""
    stack, layer, kind = view.place
    return f"{_KINDS[stack, kind]}, layer {layer} ({view.component})"


def label(token: str) -> str:
    """Returns a readable token: spaces as ␣, unprintable characters as �, and a long token shortened."""
    shown = "".join("␣" if char == " " else char if char.isprintable() else "�" for char in token)
    while _ems(shown) > _LONGEST:
        shown = shown.removesuffix("…")[:-1] + "…"
    return shown


def _figure(view: AttentionView, weights: Float[Tensor, "maps query key"]) -> Figure:
    rows = [label(token) for token in view.query[:MAX_TOKENS]]
    columns = [label(token) for token in view.key[:MAX_TOKENS]]
    cell = min(_LARGE_CELL, max(_CELL, _LEAST_PANEL / max(len(rows), len(columns))))
    width, height = max(len(columns) * cell, 0.9), len(rows) * cell
    left, below = max(map(_width, rows)) + 0.2, max(map(_width, columns)) + 0.1
    down = math.ceil(len(weights) / min(4, max(1, int((_WIDEST - left) / (width + _GAP)))))
    across = math.ceil(len(weights) / down)
    total_width = max(6.0, left + across * (width + _GAP) + _BAR)
    bar_below = _FONT / 72  # the lowest label of the color bar ends below the bar
    total_height = _TITLE + max(down * (height + below + _TITLE), _TITLE + _LEAST_BAR + bar_below)
    figure = Figure(figsize=(total_width, total_height))
    heading = f"{title_of(view)}: rows read columns"
    figure.text(0.1 / total_width, 1 - 0.1 / total_height, heading, fontsize=10, va="top")

    def axes_at(x: float, y: float, width: float, height: float) -> Axes:  # inches from the upper left
        box = x / total_width, 1 - (y + height) / total_height, width / total_width, height / total_height
        return figure.add_axes(box)

    shown = weights[:, : len(rows), : len(columns)].numpy()
    turned = max(map(_width, columns)) > cell
    for head, values in enumerate(shown):
        row, column = divmod(head, across)
        x, y = left + column * (width + _GAP), 2 * _TITLE + row * (height + below + _TITLE)
        axes = axes_at(x, y, width, height)
        image = axes.imshow(
            values, STRENGTH, interpolation="none", aspect="auto", vmin=0, vmax=max(shown.max(), 1e-6)
        )
        axes.set_title(f"head {head}")
        axes.set(xticks=[], yticks=[])  # a text for each token is several times faster than a tick
        for index, token in enumerate(columns):
            rotation = 90 if turned else 0
            axes.text(index, len(rows) - 0.4, token, rotation=rotation, ha="center", va="top", fontsize=_FONT)
        for index, token in enumerate(rows if column == 0 else ()):
            axes.text(-0.6, index, token, ha="right", va="center_baseline", fontsize=_FONT)
    x = left + across * (width + _GAP)
    bar = figure.colorbar(image, cax=axes_at(x, 2 * _TITLE, 0.12, max(height, _LEAST_BAR)))
    bar.ax.tick_params(labelsize=_FONT)
    return figure


def _width(token: str) -> float:
    """Returns about how many inches a token takes."""
    return _ems(token) * _FONT / 72


def _ems(text: str) -> float:
    return sum(1.0 if east_asian_width(char) in "WF" else 0.7 for char in text)
