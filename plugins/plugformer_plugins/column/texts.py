"""Columns of texts: one or several, words, and names of classes."""

import math
import random
from typing import TYPE_CHECKING, Any

from plugformer.interfaces import ColumnKind

if TYPE_CHECKING:
    from datasets import ClassLabel, List, Value

_SENTENCES = (
    "the quick brown fox jumps over the lazy dog",
    "it rains",
    "nobody has seen the red house",
    "a cat sat on the mat and slept",
    "rain",
    "new houses are seldom red",
)
_NAMES = ("blue", "green", "red")


def read_text(cell: object) -> str:
    """Returns a cell that holds text, or an integer as text.

    Raises:
        ValueError: It is something else.
    """
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        raise ValueError("is missing, expected text; fill it in or remove the row")
    if type(cell) is int:
        return str(cell)
    if not isinstance(cell, str):
        raise ValueError(f"is {cell!r}, expected text; convert it to text")
    try:
        cell.encode()
    except UnicodeEncodeError:  # from JSON escapes, or from bytes that are not UTF-8
        raise ValueError(f"is not UTF-8: {cell!r}; correct it") from None
    return cell


class Text(ColumnKind):
    """A text; an integer becomes one."""

    @property
    def feature(self) -> "Value | ClassLabel":
        """A string."""
        from datasets import Value

        return Value("string")

    def read(self, cell: object) -> str:
        """Returns the text, or raises ValueError."""
        return read_text(cell)

    def example(self, draw: random.Random, along: Any = None) -> str:
        """Returns a sentence."""
        return draw.choice(_SENTENCES)


class Label(Text):
    """The name of one class; an integer is a name, too."""

    classes = True

    @property
    def feature(self) -> "ClassLabel":
        """A class."""
        from datasets import ClassLabel

        return ClassLabel(names=[])

    def example(self, draw: random.Random, along: Any = None) -> str:
        """Returns the name of a color."""
        return draw.choice(_NAMES)


class TextList(ColumnKind):
    """A list of texts, none of them blank. Plain text is split at white space."""

    @property
    def feature(self) -> "List":
        """A list of strings."""
        from datasets import List, Value

        return List(Value("string"))

    def read(self, cell: object) -> list[Any]:
        """Returns the items of a list, or of a text; raises ValueError if one is none."""
        parts = cell.split() if isinstance(cell, str) else cell
        if not isinstance(parts, list | tuple):
            raise ValueError(f"is {cell!r}, expected text or a list; correct it")
        return list(map(self.item, parts))

    def item(self, part: object) -> Any:
        """Returns an item, or raises ValueError."""
        text = read_text(part)
        if not text.strip():
            raise ValueError("has an empty item, expected text; fill it in or remove the row")
        return text

    def example(self, draw: random.Random, along: Any = None) -> list[Any]:
        """Returns one or two sentences."""
        return draw.sample(_SENTENCES, draw.randint(1, 2))


class WordList(TextList):
    """The words of a text."""

    def example(self, draw: random.Random, along: Any = None) -> list[str]:
        """Returns the words of a sentence."""
        return draw.choice(_SENTENCES).split()


class Labels(TextList):
    """Names of classes, in any number."""

    classes = empty = True

    def example(self, draw: random.Random, along: Any = None) -> list[str]:
        """Returns the names of some colors."""
        return draw.sample(_NAMES, draw.randint(0, 3))


class Tags(TextList):
    """Names of classes, one for each word."""

    classes = aligned = True

    def example(self, draw: random.Random, along: Any = None) -> list[str]:
        """Returns a color for each word."""
        return [draw.choice(_NAMES) for _ in along]
