"""The contract of kinds of columns, see plugformer.interfaces.data."""

import json
import math
import random
from typing import Any

import pytest
from datasets import ClassLabel, Dataset, Features

from plugformer.errors import described
from plugformer.interfaces import ColumnKind, as_text
from plugformer_testing import require
from plugformer_testing.contract import contract_check
from plugformer_testing.subject import Subject

_ALONG = ("It", "rains", "again")
_CELLS: tuple[Any, ...] = ("", "☃", " a\tb ", "\ud83d", 0, -1, 10**400, 0.5, math.nan, math.inf, True)
_CELLS += ([], [None], [[]], ["a", 1], {}, {"a": None})


def _examples(kind: ColumnKind) -> list[Any]:
    draw = random.Random(1)  # noqa: S311
    return [kind.example(draw, _ALONG if kind.aligned else None) for _ in range(20)]


def _read(kind: ColumnKind, cell: object) -> list[Any]:
    """Returns the value in a cell, or nothing if it is refused."""
    try:
        return [kind.read(cell)]
    except ValueError as error:
        require.that(str(error), f"it refuses {cell!r} without a word")
        return []
    except Exception as error:
        pytest.fail(f"a cell {cell!r} is {described(error)}, expected a value or a ValueError", pytrace=False)


@contract_check()
def examples_are_values(subject: Subject) -> None:
    """An example, read as a cell, is itself; the examples differ, and an aligned one has all items."""
    kind: ColumnKind = subject.create()
    values = _examples(kind)
    require.that(any(value != values[0] for value in values), f"all its examples are {values[0]!r}")
    for value in values:
        require.equal(_read(kind, value), [value], f"what the example {value!r} is read as")
        if kind.aligned:
            require.equal(len(value), len(_ALONG), f"the number of items of {value!r}")


@contract_check()
def values_can_be_stored(subject: Subject) -> None:
    """A value is the same when it comes back from JSON, and from a data set with its type `feature`."""
    kind: ColumnKind = subject.create()
    values, feature = _examples(kind), kind.feature
    if isinstance(feature, ClassLabel):
        feature = ClassLabel(names=sorted(set(values)))
    stored = list(Dataset.from_dict({"a": values}, features=Features({"a": feature}))["a"])
    stored = feature.int2str(stored) if isinstance(feature, ClassLabel) else stored
    for value, found in zip(values, stored, strict=True):
        require.equal(found, value, "what a data set returns of a value")
        require.equal(json.loads(json.dumps(value)), value, "what JSON returns of a value")


@contract_check()
def values_are_read_from_text(subject: Subject) -> None:
    """A value that is printed is read again as one that looks the same; dictionaries may have no text."""
    kind: ColumnKind = subject.create()
    for value in _examples(kind):
        if not isinstance(value, dict):
            found = list(map(as_text, _read(kind, as_text(value))))
            require.equal(found, [as_text(value)], f"what the text of {value!r} is read as")


@contract_check()
def other_cells_are_refused(subject: Subject) -> None:
    """A cell without a value is a ValueError in words, such as a missing cell; all else is read for good."""
    kind: ColumnKind = subject.create()
    for cell in (None, object()):
        require.equal(_read(kind, cell), [], f"what {cell!r} is read as")
    for cell in _CELLS:
        for value in _read(kind, cell):
            require.equal(_read(kind, value), [value], f"what {value!r}, read from {cell!r}, is read as")
            require.equal(json.loads(json.dumps(value)), value, f"what JSON returns of {value!r}")
