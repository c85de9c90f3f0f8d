"""Figures of attention weights: one for each attention of each layer, with a panel for each head."""

import math
from collections.abc import Iterable, Iterator, Sequence
from unicodedata import east_asian_width

from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from plugformer.errors import ConfigurationError
from plugformer_inspection.attention import AttentionView
from plugformer_reports.drawing import STRENGTH, Drawing

MOST_TOKENS = 48
"""Tokens of either axis that are drawn; the caption says when there are more."""

MOST_LAYERS = 4
"""Layers of a stack that are drawn if nobody chooses."""

_KINDS = {
    ("encoder", "self"): "Encoder self-attention",
    ("decoder", "self"): "Decoder self-attention",
    ("decoder", "cross"): "Cross-attention",
}
_NARROWEST, _WIDEST = 6.0, 13.6  # inches, of a figure
_CELL, _LARGE_CELL = 0.115, 0.28  # inches, of one weight: as small as its label allows; as large as useful
_LEAST_PANEL = 1.9  # inches; a panel of few tokens has larger cells
_FONT = 7.0  # points, of a token
_LONGEST = 12.0  # ems, of a token that is shown whole
_GAP, _TITLE, _BAR = 0.2, 0.3, 0.75  # inches, between panels, above each, and for the color bar
_HEADING, _LEAST_BAR = 0.3, 1.2  # inches, above the figure, and of the color bar's length


def draw_attention(views: Iterable[AttentionView]) -> Iterator[Drawing]:
    """Yields a figure for each attention that recorded its weights."""
    for view in views:
        if view.weights is not None:
            stack, layer, kind = view.place
            name = f"attention-{stack}-{kind}-layer-{layer}"
            yield Drawing(name, place_name(view), _caption(view), _figure(view, view.weights))


def chosen(views: Sequence[AttentionView], layers: Sequence[int]) -> list[AttentionView]:
    """Returns the attentions in some layers; without a choice in `MOST_LAYERS` of each stack, evenly spread.

    Raises:
        ConfigurationError: No stack has such a layer.
    """
    depths = {view.place.stack: view.place.layer + 1 for view in views}
    deepest = max(depths.values())
    for layer in layers:
        if layer >= deepest:
            raise ConfigurationError(
                f"--layer {layer}: no such layer; expected a number from 0 to {deepest - 1}"
            )
    wanted = {stack: set(layers) or _spread(depth) for stack, depth in depths.items()}
    return [view for view in views if view.place.layer in wanted[view.place.stack]]


def _spread(depth: int) -> set[int]:
    """Returns the first layer, the last, and as many between as are drawn."""
    if depth <= MOST_LAYERS:
        return set(range(depth))
    return {round(number * (depth - 1) / (MOST_LAYERS - 1)) for number in range(MOST_LAYERS)}


def place_name(view: AttentionView) -> str:
    """Returns a heading: the place of an attention, and its name."""
    stack, layer, kind = view.place
    return f"{_KINDS[stack, kind]}, layer {layer} ({view.component})"


def label(token: str) -> str:
    """Returns a token as people can read it: spaces as ␣, what has no shape as �, a long one shortened."""
    shown = "".join("␣" if each == " " else each if each.isprintable() else "�" for each in token)
    while _ems(shown) > _LONGEST:
        shown = shown.removesuffix("…")[:-1] + "…"
    return shown


def _caption(view: AttentionView) -> str:
    caption = "Each row shows how much a token reads of each column's token; a row sums to 1."
    if view.place.stack == "decoder":
        caption += " The model writes the next token from what it reads there."
    longest = max(len(view.query), len(view.key))
    if longest > MOST_TOKENS:
        caption += f" The first {MOST_TOKENS} of {longest} tokens are drawn."
    return caption


def _figure(view: AttentionView, weights: Float[Tensor, "maps query key"]) -> Figure:
    """Draws the panels row by row, all of one size in inches, and the color bar right of the first row."""
    rows = [label(token) for token in view.query[:MOST_TOKENS]]
    columns = [label(token) for token in view.key[:MOST_TOKENS]]
    cell = min(_LARGE_CELL, max(_CELL, _LEAST_PANEL / max(len(rows), len(columns))))
    width, height = max(len(columns) * cell, 0.9), len(rows) * cell
    left, below = _room(rows) + 0.25, _room(columns) + 0.1
    fitting = max(1, int((_WIDEST - left - _BAR) / (width + _GAP)))
    down = math.ceil(len(weights) / min(fitting, 4))
    across = math.ceil(len(weights) / down)
    step_across, step_down = width + _GAP, height + below + _TITLE
    total_width = max(_NARROWEST, left + across * step_across + _BAR)
    total_height = _HEADING + max(down * step_down, _TITLE + _LEAST_BAR)
    figure = Figure(figsize=(total_width, total_height))
    heading = f"{place_name(view)}: rows read columns"
    figure.text(0.1 / total_width, 1 - 0.1 / total_height, heading, fontsize=10, va="top")

    def axes_at(column: int, row: int, width: float, height: float) -> Axes:
        x, y = left + column * step_across, _HEADING + _TITLE + row * step_down  # of the upper left corner
        bottom = total_height - y - height
        return figure.add_axes(
            (x / total_width, bottom / total_height, width / total_width, height / total_height)
        )

    shown = weights[:, : len(rows), : len(columns)].numpy()
    for number, values in enumerate(shown):
        row, column = divmod(number, across)
        axes = axes_at(column, row, width, height)
        image = axes.imshow(
            values, STRENGTH, interpolation="none", aspect="auto", vmin=0, vmax=max(shown.max(), 1e-6)
        )
        axes.set_title(f"head {number}")
        axes.set(xticks=[], yticks=[])  # a text for each token is several times faster than a tick
        _name_columns(axes, columns, cell)
        if column == 0:
            _name_rows(axes, rows)
    bar = figure.colorbar(image, cax=axes_at(across, 0, 0.12, max(height, _LEAST_BAR)))
    bar.ax.tick_params(labelsize=_FONT)
    return figure


def _name_columns(axes: Axes, tokens: list[str], cell: float) -> None:
    """Writes the tokens below, upright where they fit and turned where they are longer than a cell."""
    for column, token in enumerate(tokens):
        turned = _width(token) > cell
        axes.annotate(
            token,
            (column, 0),
            (0, -3 if turned else -3 - _FONT),
            xycoords=axes.get_xaxis_transform(),
            textcoords="offset points",
            rotation=90 if turned else 0,
            rotation_mode="anchor",
            ha="right" if turned else "center",
            va="center" if turned else "baseline",
            fontsize=_FONT,
        )


def _name_rows(axes: Axes, tokens: list[str]) -> None:
    for row, token in enumerate(tokens):
        axes.annotate(
            token,
            (0, row),
            (-3, 0),
            xycoords=axes.get_yaxis_transform(),
            textcoords="offset points",
            ha="right",
            va="center_baseline",
            fontsize=_FONT,
        )


def _room(tokens: Sequence[str]) -> float:
    """Returns inches that the longest token takes."""
    return max(map(_width, tokens), default=0.0)


def _width(token: str) -> float:
    """Returns about how many inches a token takes."""
    return _ems(token) * _FONT / 72


def _ems(text: str) -> float:
    return sum(1.0 if east_asian_width(each) in "WF" else 0.7 for each in text)
