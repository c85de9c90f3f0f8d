"""From the labels in files to classes."""

import re
from collections.abc import Collection, Iterable, Sequence

from plugformer.errors import DataError

_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_DIGITS = re.compile(r"([0-9]+)")


def class_names(labels: Iterable[str]) -> list[str]:
    """Returns the different labels in order: numbers by value; in others, "class 9" before "class 10"."""
    names = set(labels)
    if any("." in name or "-" in name for name in names) and all(map(_NUMBER.fullmatch, names)):
        return sorted(names, key=lambda name: (float(name), name))

    def natural(name: str) -> tuple[list[str | int], str]:
        parts = _DIGITS.split(name)  # every second part has digits
        return [int(part) if place % 2 else part for place, part in enumerate(parts)], name

    return sorted(names, key=natural)


def first_number(names: Sequence[str], written: Collection[str], *, zero_based: bool | None) -> int | None:
    """Returns the number of the first class, 0 or 1; None if numbers are themselves names of classes.

    If `zero_based` is None, the labels that occur, `written`, decide.

    Raises:
        DataError: The labels are numbers that may count from 0 or from 1.
    """
    numbers = {str(number) for number in range(len(names) + 1)}
    if not numbers.isdisjoint(names):
        return None
    if zero_based is not None:
        return 0 if zero_based else 1
    zero, last = "0" in written, str(len(names)) in written
    if zero == last and not numbers.isdisjoint(written):
        raise DataError(
            "labels are numbers, and nothing shows whether they count from 0 or from 1: "
            f"{'both 0 and' if zero else 'neither 0 nor'} {len(names)} occur{'s' * (not zero)}; set "
            "data.zero_based, or write names"
        )
    return 0 if zero else 1


def class_numbers(names: Sequence[str], first: int | None) -> dict[str, int]:
    """Returns the class of each label that may occur: names, and numbers from `first` unless it is None."""
    classes = {name: number for number, name in enumerate(names)}
    if first is not None:
        for number in range(len(names)):
            classes.setdefault(str(number + first), number)
    return classes
