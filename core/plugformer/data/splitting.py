"""Splits: taken out of the training examples, compared with each other, and the classes that they share."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b

import numpy as np
from datasets import ClassLabel, Dataset, DatasetDict, Features
from jaxtyping import Int
from numpy import ndarray

from plugformer.configuration.task import Split
from plugformer.data.arrow import ColumnTexts
from plugformer.errors import ConfigurationError, DataError, RegistryError
from plugformer.interfaces import Column, TaskType


def split(examples: DatasetDict, settings: Split | None, task_type: TaskType) -> DatasetDict:
    """Returns the splits of a task: train, validation and tests.

    With `by: group`, rows with the same value in the first column stay in one split.
    """
    if "train" not in examples:
        raise DataError(f"the data have no split 'train', only {sorted(examples)}; give training examples")
    if settings is not None:
        examples = DatasetDict({**examples, **_take(examples, settings, task_type)})
    if "validation" not in examples:
        raise DataError(
            f"the data have no split 'validation', only {sorted(examples)}; name a file for it, or take it "
            "out of the training examples with data.split: {validation: 0.05}"
        )
    return examples


def _take(examples: DatasetDict, settings: Split, task_type: TaskType) -> dict[str, Dataset]:
    """Returns the new train split and what was taken out of it."""
    held_out = {"test": settings.test, "validation": settings.validation}
    wanted = {name: part for name, part in held_out.items() if part is not None}
    if given := sorted(wanted.keys() & examples.keys()):
        raise ConfigurationError(
            f"data.split.{given[0]}: the data have a split {given[0]!r} of their own; remove one of the two"
        )
    train, by_group = examples["train"], settings.by == "group"
    groups = _groups(train, task_type.columns[0].name) if by_group else np.arange(len(train))
    rest = np.arange(groups.max() + 1)
    total = len(rest)
    if settings.by != "order":
        rest = np.random.default_rng(settings.seed).permutation(rest)
    chosen = {}
    for name, part in wanted.items():  # off the end, one after the other
        count = part if isinstance(part, int) else int(round(total * part, 6))
        if not 0 < count < len(rest):
            raise DataError(
                f"data.split.{name}: {part} of {total} training examples (or groups) is {count}, of "
                f"{len(rest)} that are left; at least one must be taken and one remain"
            )
        rest, chosen[name] = rest[:-count], rest[-count:]
    parts = {
        name: train.select(np.flatnonzero(np.isin(groups, numbers)))
        for name, numbers in {"train": rest, **chosen}.items()
    }
    if by_group:
        parts.update({name: task_type.held_out_groups(parts[name]) for name in wanted})
    return parts


def _groups(data: Dataset, column: str) -> Int[ndarray, " rows"]:
    """Returns each row's group: rows with the same text have the same, by a hash of eight bytes."""
    digests = (blake2b(text.encode(), digest_size=8).digest() for text in ColumnTexts(data, column))
    numbers = np.fromiter((int.from_bytes(digest, "big") for digest in digests), dtype=np.uint64)
    return np.unique(numbers, return_inverse=True)[1]


def refuse_other_order(features: Features, classes: Sequence[str]) -> None:
    """Raises DataError for classes in another order than in a run: its numbers would mean other classes."""
    for feature in features.values():
        names = getattr(feature, "names", ())
        order = [classes.index(name) for name in names if name in classes]
        if order != sorted(order):
            raise DataError(
                f"the data have the classes {names}, in another order than the run was trained with: "
                f"{list(classes)}; name them in this order"
            )


def refuse_other_classes(splits: Mapping[str, Features | None], columns: Sequence[Column]) -> None:
    """Raises RegistryError if labels are not classes, or not the same classes in all splits."""
    needed = [column for column in columns if not column.optional]
    for label in (column.name for column in needed if isinstance(column.kind.feature, ClassLabel)):
        expected = (splits["train"] or {}).get(label)
        for name, features in splits.items():
            labels = (features or {}).get(label)
            if not isinstance(labels, ClassLabel) or labels != expected:
                raise RegistryError(
                    f"split {name!r} has labels {labels}, expected a ClassLabel, as in 'train': {expected}"
                )


def overlaps(splits: Mapping[str, Dataset], columns: Sequence[Column]) -> list[str]:
    """Returns a notice for each other split that shares examples with `train`: scores on it are too good.

    Two examples are the same if all columns of the task's type are that examples must have.
    """
    needed = [column.name for column in columns if not column.optional]
    hashes = {}
    for name, data in splits.items() if "train" in splits else ():
        kept = data.select_columns(needed)
        tables = (table.to_pydict().values() for table in kept.with_format("arrow").iter(10_000))
        rows = (row for values in tables for row in zip(*values, strict=True))
        hashes[name] = np.fromiter((hash(repr(row)) for row in rows), dtype=np.int64, count=len(data))
    shared = {name: np.isin(hashes[name], hashes["train"]) for name in hashes if name != "train"}
    return [
        f"{name}: {int(same.sum()):,} of {len(same):,} examples ({same.mean():.1%}) also occur in train; "
        "scores on them say little about new examples"
        for name, same in shared.items()
        if same.any()
    ]
