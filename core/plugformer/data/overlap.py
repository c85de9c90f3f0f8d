"""Validation and test examples that occur in the training data, too: scores on them are too good."""

from collections.abc import Mapping, Sequence

import numpy as np
from datasets import Dataset
from jaxtyping import Int
from numpy import ndarray

from plugformer.interfaces import Column

_ROWS = 10_000
"""Rows that are in memory at a time."""


def overlaps(splits: Mapping[str, Dataset], columns: Sequence[Column]) -> list[str]:
    """Returns for each other split how many of its examples the training data have, if they have some.

    Two examples are the same if all their columns are.

    Args:
        splits: The examples; nothing is compared unless `train` is among them.
        columns: Of the task's type.
    """
    if "train" not in splits or len(splits) < 2:
        return []
    names = [column.name for column in columns]
    train = _hashes(splits["train"], names)
    found = {name: np.isin(_hashes(data, names), train) for name, data in splits.items() if name != "train"}
    return [
        f"{name}: {int(same.sum()):,} of {len(same):,} examples ({same.mean():.1%}) also occur in train; "
        "scores on them say little about new examples"
        for name, same in found.items()
        if same.any()
    ]


def _hashes(data: Dataset, names: Sequence[str]) -> Int[ndarray, " examples"]:
    """Returns a number for each example, different from that of another; only this process has the same."""
    kept = data.select_columns([name for name in names if name in data.column_names])
    numbers = np.empty(len(data), dtype=np.int64)
    start = 0
    for table in kept.with_format("arrow").iter(_ROWS):
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        numbers[start : start + len(table)] = [hash(repr(row)) for row in rows]
        start += len(table)
    return numbers
