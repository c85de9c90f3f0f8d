"""What tells arms apart in one picture."""

from typing import NamedTuple

_COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
"""Colours that people with any colour vision tell apart: https://doi.org/10.1038/nmeth.1618."""

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")


class Look(NamedTuple):
    """Colour and marker of an arm."""

    colour: str
    marker: str


def look_of(number: int) -> Look:
    """Returns how the arm of a number looks; 63 arms look different."""
    return Look(_COLOURS[number % len(_COLOURS)], _MARKERS[number % len(_MARKERS)])
