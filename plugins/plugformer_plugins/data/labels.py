"""From the labels in files to classes."""

import re
import unicodedata
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plugformer.errors import DataError, nearest

if TYPE_CHECKING:
    from datasets import DatasetDict
    from jaxtyping import Int
    from numpy import ndarray

_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_DIGITS = re.compile(r"([0-9]+)")

MANY, SELDOM = 50, 3
"""So many labels with fewer examples each are probably measurements."""

SEVERAL = 20
"""So many numbers with fractions are probably measurements, however often each occurs."""


class Labels:
    """The labels of one split, in the order of its examples: each spelling is kept once.

    Attributes:
        places: Every label that occurs, and where it does first.
    """

    def __init__(self) -> None:
        self.places: dict[str, str] = {}
        self._spellings: dict[str, int] = {}
        self._rows = array("q")

    def taken(self, rows: Iterable[tuple[tuple[Any, ...], str]], position: int) -> Iterator[tuple[Any, ...]]:
        """Yields values without the label at a position, for rows of values and places; keeps the labels."""
        for values, place in rows:
            label = values[position]
            self.places.setdefault(label, place)
            self._rows.append(self._spellings.setdefault(label, len(self._spellings)))
            yield (*values[:position], *values[position + 1 :])

    def count(self, label: str) -> int:
        """Returns the number of examples that have a label."""
        return self._rows.count(self._spellings[label])

    def classes(self, numbers: Mapping[str, int]) -> "Int[ndarray, ' examples']":
        """Returns the class of each example, -1 where `numbers` has none for its label."""
        import numpy as np

        by_spelling = np.array([numbers.get(label, -1) for label in self._spellings], dtype=np.int64)
        return by_spelling[np.frombuffer(self._rows, dtype=np.int64)]


def class_names(labels: Iterable[str]) -> list[str]:
    """Returns the different labels in order: numbers by value; in others, "class 9" before "class 10"."""
    names = set(labels)
    if any("." in name or "-" in name for name in names) and all(map(_NUMBER.fullmatch, names)):
        return sorted(names, key=lambda name: (float(name), name))
    return sorted(names, key=lambda name: ([_natural(part) for part in _DIGITS.split(name)], name))


def _natural(part: str) -> Any:
    """Returns digits by value, as their length and text: Python converts at most 4,300 digits to a number."""
    digits = part.lstrip("0")
    return (len(digits), digits) if _DIGITS.fullmatch(part) else part


def look_alikes(names: Iterable[str]) -> tuple[str, str] | None:
    """Returns two names that differ only in spaces, invisible marks or Unicode composition, if there are."""
    seen: dict[str, str] = {}
    for name in names:
        visible = "".join(character for character in name if unicodedata.category(character) != "Cf")
        other = seen.setdefault(" ".join(unicodedata.normalize("NFC", visible).split()), name)
        if other != name:
            return other, name
    return None


def warn_of_numbers(examples: "DatasetDict", column: object) -> list[str]:
    """Returns a warning if the training labels of a column look like measurements rather than classes."""
    rows = len(examples["train"])
    features = examples["train"].features.values() if rows else ()
    names: list[str] = next((feature.names for feature in features if hasattr(feature, "names")), [])
    numbers = bool(names) and all(map(_NUMBER.fullmatch, names))
    fractions = numbers and len(names) >= SEVERAL and any("." in name for name in names)
    if not fractions and (len(names) < MANY or rows >= SELDOM * len(names)):
        return []
    return [
        f"WARNING: column {column!r} has {len(names):,} different labels in {rows:,} training examples, such "
        f"as {names[0]!r}, and each becomes a class; this is not regression. Replace them by ranges such as "
        "low and high, or name the column with the classes in data.columns"
    ]


def first_number(names: Sequence[str], places: Mapping[str, str], *, zero_based: bool | None) -> int | None:
    """Returns the number of the first class, 0 or 1; None if numbers are themselves names of classes.

    Args:
        names: The classes, in order.
        places: Every label that occurs, and where it does first.
        zero_based: Whether numbers count from 0; if None, the labels decide.

    Raises:
        DataError: The labels are numbers that may count from 0 or from 1.
    """
    numbers = {str(number) for number in range(len(names) + 1)}
    if not numbers.isdisjoint(names):
        return None
    if zero_based is not None:
        return 0 if zero_based else 1
    if "0" in places:
        return 0
    unclear = sorted(numbers & places.keys())
    if unclear and str(len(names)) not in places:
        raise DataError(
            f"{places[unclear[0]]}: label {unclear[0]!r} is a number, and nothing shows whether it counts "
            f"from 0 or from 1: neither 0 nor {len(names)} occurs; set data.zero_based, or write names"
        )
    return 1


def class_numbers(names: Sequence[str], first: int | None) -> dict[str, int]:
    """Returns the class of each label that may occur: names, and numbers from `first` unless it is None."""
    numbers = {} if first is None else {str(number + first): number for number in range(len(names))}
    return numbers | {name: number for number, name in enumerate(names)}


def unknown_label(label: str, place: str, names: Sequence[str], first: int | None) -> DataError:
    """Returns the error of a label at a place that is neither the name nor the number of a class."""
    numbers = "" if first is None else f", or a number from {first} to {first + len(names) - 1}"
    return DataError(
        f"{place}: unknown label {label!r}{nearest(label, names)}; expected one of {list(names)}{numbers}; "
        "correct it, or complete data.labels"
    )
