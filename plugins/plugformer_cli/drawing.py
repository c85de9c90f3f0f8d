"""Figures in one style, and the fonts that their texts need."""

import io
import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findSystemFonts, fontManager, get_font

BLUE, ORANGE, GRAY = "#0072B2", "#D55E00", "#767676"
"""Colors that people with any color vision tell apart: https://doi.org/10.1038/nmeth.1618."""

STRENGTH, SIGNED = "Blues", "RdBu_r"
"""Color maps: from nothing to much, and from minus to plus."""

CJK_FAMILIES = (
    *("Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "PingFang SC", "Hiragino Sans GB"),
    *("Microsoft YaHei", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "SimHei", "Noto Sans CJK JP"),
    *("Noto Sans JP", "Hiragino Sans", "Yu Gothic", "Noto Sans KR", "Malgun Gothic"),
    *("Droid Sans Fallback", "Arial Unicode MS"),
)
"""Fonts of Linux, macOS and Windows with Chinese characters, those for simplified Chinese first."""

_LATIN = "DejaVu Sans"  # comes with matplotlib
_DPI = 120

_STYLE = {
    "axes.edgecolor": GRAY,
    "axes.grid": False,
    "axes.labelsize": 9,
    "axes.linewidth": 0.6,
    "axes.titlesize": 10,
    "font.sans-serif": [_LATIN, *CJK_FAMILIES],
    "font.size": 9,
    "grid.color": "#dddddd",
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "svg.fonttype": "none",  # text stays text: the browser finds fonts that are missing here
    "svg.hashsalt": "plugformer",  # the same figure gives the same file
    "text.parse_math": False,  # a token may be a dollar sign
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}


@dataclass(frozen=True)
class Drawing:
    """A figure with the name of its files, which is unique on a page, its heading and its caption."""

    name: str
    title: str
    caption: str
    figure: Figure

    def render(self, form: str) -> bytes:
        """Returns the figure as a "png" or "svg" file, without a date or other metadata."""
        metadata = ("Creator", "Date", "Format", "Type") if form == "svg" else ("Software",)
        file = io.BytesIO()
        self.figure.savefig(file, format=form, dpi=_DPI, metadata=dict.fromkeys(metadata))
        return file.getvalue()


def panels(
    count: int,
    columns: int,
    size: tuple[float, float],
    margin: tuple[float, float] = (0, 0),
    *,
    share: bool = False,
) -> tuple[Figure, list[Axes]]:
    """Returns a figure, and axes row by row that have a grid and no frame.

    Args:
        count: Number of axes.
        columns: Largest number of axes in a row.
        size: Width and height of each, in inches.
        margin: Width and height of everything else, in inches.
        share: Whether all have the same scales.
    """
    columns = min(columns, count)
    rows = math.ceil(count / columns)
    figsize = (columns * size[0] + margin[0], rows * size[1] + margin[1])
    figure = Figure(figsize=figsize, layout="constrained")
    grid = list(figure.subplots(rows, columns, squeeze=False, sharex=share, sharey=share).flat)
    for axes in grid[count:]:
        axes.remove()
    for axes in grid[:count]:
        axes.grid(visible=True)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, grid[:count]


@contextmanager
def drawing_style(text: Iterable[str], notify: Callable[[str], None]) -> Iterator[None]:
    """Inside, figures are made and rendered in one style, whatever the user's own settings.

    `text`, all that is drawn, decides on the fonts; `notify` hears of characters that no font has.
    """
    fonts = {"font.family": [*_families(text, notify), "sans-serif"]}
    with style.context(["default", {**_STYLE, **fonts}]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # `notify` has received them
        yield


def _families(text: Iterable[str], notify: Callable[[str], None]) -> list[str]:
    """Returns the installed fonts that a text needs; each character takes the first that has it."""
    families = [_LATIN]
    missing = {character for piece in text for character in piece} - {" "} - _characters(_LATIN)
    if missing and not _installed():
        known = {font.fname for font in fontManager.ttflist}  # matplotlib never renews its list by itself
        for file in sorted(set(findSystemFonts()) - known):
            with suppress(OSError, RuntimeError):  # a format that matplotlib cannot read
                fontManager.addfont(file)
    for family in _installed():
        if missing & _characters(family):
            families.append(family)
            missing -= _characters(family)
    if missing:
        some = " ".join(sorted(missing)[:10]) + (" ..." if len(missing) > 10 else "")
        notify(
            f"no installed font has {some}: PNG files show boxes instead, and SVG files and the page leave "
            "the choice of a font to the browser; install one, for example the package fonts-noto-cjk for "
            "Chinese, or see https://fonts.google.com/noto, and run the same command again"
        )
    return families


def _installed() -> list[str]:
    known = {font.name for font in fontManager.ttflist}
    return [family for family in CJK_FAMILIES if family in known]


@cache
def _characters(family: str) -> frozenset[str]:
    """Returns the characters that a font has."""
    font = get_font(fontManager.findfont(FontProperties(family=[family])))
    return frozenset(map(chr, font.get_charmap()))
