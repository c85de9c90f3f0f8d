"""Drawings: what they look like, and how they become PNG and SVG."""

import io
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plugformer_reports.fonts import CJK_FAMILIES

BLUE, ORANGE, GRAY = "#0072B2", "#D55E00", "#767676"
"""Colors that people with any color vision tell apart: https://doi.org/10.1038/nmeth.1618."""

STRENGTH, SIGNED = "Blues", "RdBu_r"
"""Color maps, lightness first: from nothing to much, and from minus to plus."""

_RESOLUTION = 120  # dots an inch

_LOOKS = {
    "axes.edgecolor": GRAY,
    "axes.grid": False,
    "axes.labelsize": 9,
    "axes.linewidth": 0.6,
    "axes.titlesize": 10,
    "font.size": 9,
    "grid.color": "#dddddd",
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "svg.fonttype": "none",  # text stays text: a browser finds fonts that are missing here
    "svg.hashsalt": "plugformer",  # the same figure gives the same file
    "text.parse_math": False,  # a token may be a dollar sign
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}


@dataclass(frozen=True)
class Drawing:
    """A figure with what stands around it.

    Attributes:
        name: Of its files; unique on a page.
        title: A heading.
        caption: What is seen.
        figure: The figure.
    """

    name: str
    title: str
    caption: str
    figure: Figure


def panels(
    count: int,
    columns: int,
    size: tuple[float, float],
    margin: tuple[float, float] = (0, 0),
    *,
    sharex: bool = False,
    sharey: bool = False,
) -> tuple[Figure, list[Axes]]:
    """Returns a figure with axes row by row, which have a grid and no frame.

    Args:
        count: How many axes.
        columns: Of them in a row, at most.
        size: Width and height of each, in inches.
        margin: Width and height of what else there is, in inches.
        sharex: Whether all have one scale of x.
        sharey: Whether all have one scale of y.
    """
    columns = min(columns, count)
    rows = math.ceil(count / columns)
    figsize = (columns * size[0] + margin[0], rows * size[1] + margin[1])
    figure = Figure(figsize=figsize, layout="constrained")
    found = list(figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey).flat)
    for axes in found[count:]:
        axes.remove()
    for axes in found[:count]:
        axes.grid(visible=True)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, found[:count]


@contextmanager
def looks(families: Sequence[str]) -> Iterator[None]:
    """Inside, figures are made and rendered in one style, whatever the user's own settings.

    Args:
        families: Installed fonts; each character takes the first that has it.
    """
    fonts = {"font.family": [*families, "sans-serif"], "font.sans-serif": ["DejaVu Sans", *CJK_FAMILIES]}
    with style.context(["default", {**_LOOKS, **fonts}]), warnings.catch_warnings():
        # Characters that no font has are reported once, by name, before anything is drawn.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def rendered(figure: Figure, form: str) -> bytes:
    """Returns a figure as a "png" or "svg" file, without a date or other traces of where it was made."""
    traces = ("Creator", "Date", "Format", "Type") if form == "svg" else ("Software",)
    file = io.BytesIO()
    figure.savefig(file, format=form, dpi=_RESOLUTION, metadata=dict.fromkeys(traces))
    return file.getvalue()
