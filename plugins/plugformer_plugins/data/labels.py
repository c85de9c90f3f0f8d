"""From labels as they stand in files to classes."""

import re
import unicodedata
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plugformer.errors import DataError, nearest

if TYPE_CHECKING:
    from datasets import DatasetDict
    from jaxtyping import Int
    from numpy import ndarray

_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_DIGITS = re.compile(r"([0-9]+)")

MANY, SELDOM = 50, 3
"""So many classes, with fewer examples each, are hardly classes."""

SEVERAL = 20
"""So many numbers with fractions are measurements, however often each occurs."""


class Labels:
    """The labels of one split, in the order of its examples: each spelling is kept once.

    Attributes:
        places: Every label that occurs, and where it does first.
    """

    def __init__(self) -> None:
        self.places: dict[str, str] = {}
        self._spellings: dict[str, int] = {}
        self._rows = array("q")

    def taken(self, examples: Iterable[tuple[tuple[Any, ...], str, str]]) -> Iterator[tuple[Any, ...]]:
        """Yields the other values of examples, each with a label and a place, whose labels it keeps."""
        for values, label, place in examples:
            self.places.setdefault(label, place)
            self._rows.append(self._spellings.setdefault(label, len(self._spellings)))
            yield values

    def count(self, label: str) -> int:
        """Returns the number of examples that have a label."""
        return self._rows.count(self._spellings[label])

    def classes(self, numbers: Mapping[str, int]) -> "Int[ndarray, ' examples']":
        """Returns the class of each example, -1 where `numbers` has none for its label."""
        import numpy as np

        by_spelling = np.array([numbers.get(label, -1) for label in self._spellings], dtype=np.int64)
        return by_spelling[np.frombuffer(self._rows, dtype=np.int64)]


def class_names(declared: Sequence[str] | None, train: Iterable[str]) -> list[str]:
    """Returns the names of the classes, in order.

    Args:
        declared: The task's; if None, the labels of the training examples, numbers in them by value.
        train: The labels of the training examples.
    """
    if declared is not None:
        return list(declared)
    found = set(train)
    return sorted(found, key=_order(found))


def look_alikes(names: Iterable[str]) -> tuple[str, str] | None:
    """Returns two names that people take for one: they differ only in spaces, or in how Unicode spells them.

    Args:
        names: Such as of classes.
    """
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(_as_seen(name), name)
        if other != name:
            return other, name
    return None


def _as_seen(name: str) -> str:
    """Returns a name without marks that nobody sees, composed, one plain space wherever there are some."""
    visible = "".join(character for character in name if unicodedata.category(character) != "Cf")
    return " ".join(unicodedata.normalize("NFC", visible).split())


def refuse_look_alikes(places: Mapping[str, str]) -> None:
    """Refuses labels that look the same and would be different classes.

    Args:
        places: Every label, and where it occurs first.

    Raises:
        DataError: Two of them do.
    """
    if (pair := look_alikes(places)) is not None:
        one, other = (f"{label!a} ({places[label]})" for label in pair)
        raise DataError(
            f"the labels {one} and {other} look the same, and each would be a class of its own; write them "
            "alike, or name the classes, both if they are meant, in data.labels"
        )


def _order(found: Collection[str]) -> Callable[[str], Any]:
    """Returns the sort key of labels: numbers by value; in others, "class 9" comes before "class 10"."""
    if any("." in label or "-" in label for label in found) and all(map(_NUMBER.fullmatch, found)):
        return lambda label: (float(label), label)
    return lambda label: (
        [
            (len(digits := part.lstrip("0")), digits) if number % 2 else part
            for number, part in enumerate(_DIGITS.split(label))
        ],
        label,
    )


def warn_of_numbers(examples: "DatasetDict", column: object) -> list[str]:
    """Returns a warning if the labels of the training examples seem to be measurements rather than classes.

    Args:
        examples: Texts with classes.
        column: The column of the labels.
    """
    rows = len(examples["train"])
    if not rows:  # and no columns either
        return []
    names = next(
        feature.names for feature in examples["train"].features.values() if hasattr(feature, "names")
    )
    rare = len(names) >= MANY and rows < SELDOM * len(names)
    fractions = (
        len(names) >= SEVERAL and all(map(_NUMBER.fullmatch, names)) and any("." in name for name in names)
    )
    if not (rare or fractions):
        return []
    kind = "numbers" if all(map(_NUMBER.fullmatch, names)) else "texts"
    return [
        f"WARNING: column {column!r} has {len(names):,} different labels in {rows:,} training examples, "
        f"{kind} such as {names[0]!r}. Each becomes a class of its own: classification learns no sizes, and "
        "nothing of a class that it hardly sees; it is not regression. Put ranges in their place, such as "
        "low and high, or say in data.columns which column has the classes"
    ]


def first_number(names: Sequence[str], found: Mapping[str, str], *, zero_based: bool | None) -> int | None:
    """Returns the number of the first class, 0 or 1; None if numbers are no classes, being names themselves.

    Args:
        names: Of the classes, in order.
        found: Every label that occurs, and where it does first.
        zero_based: Whether numbers count from 0; if None, what the labels show.

    Raises:
        DataError: The labels do not show it: they are numbers that may be meant either way.
    """
    numbers = {str(number) for number in range(len(names) + 1)}
    if not numbers.isdisjoint(names):
        return None
    if zero_based is not None:
        return 0 if zero_based else 1
    if "0" in found:
        return 0
    unclear = sorted(numbers & found.keys())
    if unclear and str(len(names)) not in found:
        raise DataError(
            f"{found[unclear[0]]}: label {unclear[0]!r} is a number, and nothing shows whether it counts "
            f"from 0 or from 1: neither 0 nor {len(names)} occurs; set data.zero_based, or write names"
        )
    return 1


def class_numbers(names: Sequence[str], first: int | None) -> dict[str, int]:
    """Returns the class of each label that may occur: names of classes, and numbers.

    Args:
        names: Of the classes, in order.
        first: Number of the first class; None if numbers are no classes.
    """
    numbers = {} if first is None else {str(number + first): number for number in range(len(names))}
    return numbers | {name: number for number, name in enumerate(names)}


def unknown_label(label: str, place: str, names: Sequence[str], first: int | None) -> DataError:
    """Returns the fault of a label that is neither name nor number of a class.

    Args:
        label: As it is written.
        place: Where.
        names: Of the classes, in order.
        first: Number of the first class; None if numbers are no classes.
    """
    numbers = "" if first is None else f", or a number from {first} to {first + len(names) - 1}"
    return DataError(
        f"{place}: unknown label {label!r}{nearest(label, names)}; expected one of {list(names)}{numbers}; "
        "correct it, or complete data.labels"
    )
