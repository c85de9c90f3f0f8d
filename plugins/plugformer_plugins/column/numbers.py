"""Columns of numbers."""

import math
import random
from typing import TYPE_CHECKING, Any

from plugformer.interfaces import ColumnKind
from plugformer_plugins.column.texts import TextList

if TYPE_CHECKING:
    from datasets import List, Value


def read_number(cell: Any) -> float:
    """Returns a number, which may be written as text.

    Raises:
        ValueError: It is none, or not finite.
    """
    try:
        number = float(cell)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"is {cell!r}, expected a number; correct it or remove the row")
    return number


class Number(ColumnKind):
    """A finite number; text such as `-1.5` is read, too."""

    @property
    def feature(self) -> "Value":
        """A float of 64 bits."""
        from datasets import Value

        return Value("float64")

    def read(self, cell: object) -> float:
        """Returns the number.

        Raises:
            ValueError: The cell is something else.
        """
        return read_number(cell)

    def example(self, draw: random.Random, along: Any = None) -> float:
        """Returns a number with one decimal."""
        return draw.randint(-40, 40) / 10


class Numbers(TextList):
    """Finite numbers, one for each word. Plain text is split at white space."""

    aligned = True

    @property
    def feature(self) -> "List":
        """A list of floats of 64 bits."""
        from datasets import List, Value

        return List(Value("float64"))

    def item(self, part: object) -> float:
        """Returns the number, or raises ValueError."""
        return read_number(part)

    def example(self, draw: random.Random, along: Any = None) -> list[float]:
        """Returns numbers with one decimal, of both signs."""
        return [draw.randint(-1000, 40) / 10 for _ in along]
