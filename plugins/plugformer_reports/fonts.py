"""Fonts: which installed ones are needed for a text; a notice about characters that none of them has."""

from collections.abc import Callable, Iterable
from functools import cache

from matplotlib.font_manager import FontProperties, findSystemFonts, fontManager, get_font

FIRST = "DejaVu Sans"
"""Comes with matplotlib."""

CJK_FAMILIES = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "PingFang SC",
    "Hiragino Sans GB",
    "Microsoft YaHei",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "SimHei",
    "Noto Sans CJK JP",
    "Noto Sans JP",
    "Hiragino Sans",
    "Yu Gothic",
    "Noto Sans KR",
    "Malgun Gothic",
    "Droid Sans Fallback",
    "Arial Unicode MS",
)
"""Fonts of Linux, macOS and Windows with Chinese characters, the simplified ones first."""


def families_for(text: Iterable[str], notify: Callable[[str], None]) -> list[str]:
    """Returns the installed fonts that a text needs.

    Args:
        text: What is to be drawn.
        notify: Is told once which characters no installed font has.
    """
    missing = {character for piece in text for character in piece} - {" "}
    families = [FIRST]
    missing -= _characters(FIRST)
    if missing and not _installed():
        _look_again()
    for family in _installed():
        if missing & _characters(family):
            families.append(family)
            missing -= _characters(family)
    if missing:
        some = " ".join(sorted(missing)[:10]) + (" ..." if len(missing) > 10 else "")
        notify(
            f"no installed font has {some}: PNG files show boxes instead, SVG files and the page leave it to "
            "the browser; install one, such as the package fonts-noto-cjk for Chinese, or see "
            "https://fonts.google.com/noto, and give the same command again"
        )
    return families


def _installed() -> list[str]:
    known = {font.name for font in fontManager.ttflist}
    return [family for family in CJK_FAMILIES if family in known]


def _look_again() -> None:
    """Finds fonts that were installed after matplotlib made its list, which it never renews by itself."""
    known = {font.fname for font in fontManager.ttflist}
    for file in sorted(set(findSystemFonts()) - known):
        try:
            fontManager.addfont(file)
        except (OSError, RuntimeError):  # a font of a kind that matplotlib cannot read
            continue


@cache
def _characters(family: str) -> frozenset[str]:
    """Returns the characters that a font has."""
    font = get_font(fontManager.findfont(FontProperties(family=[family])))
    return frozenset(map(chr, font.get_charmap()))
