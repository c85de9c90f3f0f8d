"""From rows of text to the splits that a task reads."""

import math
from collections import ChainMap, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from plugformer.data import SplitStats
from plugformer.errors import DataError
from plugformer.interfaces import Column
from plugformer_plugins.data.labels import (
    Labels,
    class_names,
    class_numbers,
    first_number,
    look_alikes,
    unknown_label,
)

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict
    from jaxtyping import Int
    from numpy import ndarray


class LoadedRow(NamedTuple):
    """A row: its value in each column that the task needs, and its file and line."""

    values: tuple[Any, ...]
    place: str


Policy = Literal["refuse", "skip"]
"""Stop at the first bad row, or skip and count bad rows."""

T = TypeVar("T")


class BadRows:
    """Stops at the first bad row, or counts bad rows, as the policy says."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._counts: dict[str, SplitStats] = defaultdict(SplitStats)

    def sound(self, split: str, rows: Iterable[T | DataError]) -> Iterator[T]:
        """Yields the usable rows of a split.

        Raises:
            DataError: A row is bad and the policy refuses it, or all rows are bad.
        """
        any_sound, count = False, self._counts[split]
        for row in rows:
            count.rows += 1
            if isinstance(row, DataError):
                self.reject(split, row)
            else:
                any_sound = True
                yield row
        if count.bad and not any_sound:
            raise DataError(f"{split}: every row is bad; the first:\n  {count.faults[0]}")

    def reject(self, split: str, error: DataError, rows: int = 1) -> None:
        """Raises the error, or counts the rows that have it."""
        if self._policy == "refuse":
            raise error
        self._counts[split].leave_out(str(error), rows)

    def notices(self) -> list[str]:
        """Returns for each split the number of skipped rows and the first errors."""
        return [notice for split, count in self._counts.items() for notice in count.notices(split)]


def needed(columns: Sequence[Column]) -> list[Column]:
    """Returns the columns that examples must have."""
    return [column for column in columns if not column.optional]


def label_column(columns: Sequence[Column]) -> Column | None:
    """Returns the column with the labels, if there is one."""
    return next((column for column in columns if column.holds == "label"), None)


def features_of(columns: Sequence[Column]) -> dict[str, Any]:
    """Returns the types of columns without labels."""
    from datasets import List, Value

    types = {"text": Value("string"), "number": Value("float64")}
    return {column.name: types.get(column.holds, List(Value("string"))) for column in columns}


def cell(value: object, column: Column, place: str) -> Any:
    """Returns the value of a cell, converted to its column's type.

    Lists may be written as text, their parts between spaces; numbers too.

    Raises:
        DataError: It is not what the column holds.
    """
    if column.holds in ("text", "label"):
        return require_text(value, column.name, place)
    if column.holds == "number":
        return require_number(value, column.name, place)
    parts = value.split() if isinstance(value, str) else value
    if not isinstance(parts, list | tuple):
        raise DataError(f"{place}: the {column.name} are {value!r}, expected text or a list; correct them")
    if not parts and column.holds != "labels":
        raise DataError(f"{place}: the {column.name} are empty, expected at least one; fill them in")
    return [require_text(part, column.name, place) for part in parts]


def require_number(value: object, column: str, place: str) -> float:
    """Returns a cell that holds a finite number, possibly written as text.

    Raises:
        DataError: It does not.
    """
    # float() would accept 1_000 and True.
    misread = isinstance(value, bool) or (isinstance(value, str) and "_" in value)
    try:
        number = float(value) if isinstance(value, str | int | float) and not misread else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise DataError(
            f"{place}: the {column} is {value!r}, expected a number; correct it or remove the row"
        )
    return number


def require_aligned(values: Sequence[Any], columns: Sequence[Column], place: str) -> None:
    """Requires one tag for each word.

    Raises:
        DataError: The numbers of tags and words differ.
    """
    by_name = dict(zip((column.name for column in columns), values, strict=True))
    for column in columns:
        if column.along is not None and len(by_name[column.name]) != len(by_name[column.along]):
            raise DataError(
                f"{place}: {len(by_name[column.along])} {column.along} and {len(by_name[column.name])} "
                f"{column.name}; expected one of the {column.name} for each of the {column.along}"
            )


def require_text(text: object, column: str, place: str) -> str:
    """Returns a cell that holds text.

    Raises:
        DataError: It is empty, blank or no text.
    """
    if not isinstance(text, str):
        raise DataError(f"{place}: the {column} is {text!r}, expected text; write it in quotes")
    if not text.strip():
        raise DataError(f"{place}: the {column} is empty, expected text; fill it in or remove the row")
    try:
        text.encode()
    except UnicodeEncodeError:  # from JSON escapes, or from bytes that are not UTF-8
        raise DataError(
            f"{place}: the {column} is not UTF-8: {text!r} has a lone surrogate; correct the character"
        ) from None
    return text


def build(
    splits: Mapping[str, Iterable[LoadedRow | DataError]],
    columns: Sequence[Column],
    bad_rows: BadRows,
    labels: Sequence[str] | None = None,
    *,
    zero_based: bool | None = None,
) -> "DatasetDict":
    """Returns the splits as memory-mapped data sets.

    Args:
        splits: The rows of each, or their errors; written to disk one by one, because they may not fit in
            memory.
        columns: The columns of the rows' values; a label becomes a class.
        bad_rows: Handles bad rows.
        labels: Names of the classes; those of the training examples if None.
        zero_based: Whether labels that are numbers count from 0; if None, the labels decide.

    Raises:
        DataError: A row is bad or its label unknown, and bad rows are refused; or nothing shows whether the
            numbers of labels count from 0 or from 1.
    """
    from datasets import DatasetDict, Features, Value

    from plugformer.data import on_disk

    sound = {name: bad_rows.sound(name, rows) for name, rows in splits.items()}
    if (label := label_column(columns)) is not None:
        return _labeled(sound, columns, label, bad_rows, labels, zero_based)
    types = features_of(columns)
    # Errors of encoding come later and need the place; a text that is only tokenized has none.
    if any(column.holds != "text" or column.tokenizer is None for column in columns):
        types["place"] = Value("string")
    features, count = Features(types), len(types)
    return DatasetDict(
        {
            name: on_disk(((*row.values, row.place)[:count] for row in rows), features)
            for name, rows in sound.items()
        }
    )


def _labeled(
    splits: Mapping[str, Iterator[LoadedRow]],
    columns: Sequence[Column],
    label: Column,
    bad_rows: BadRows,
    declared: Sequence[str] | None,
    zero_based: bool | None,
) -> "DatasetDict":
    """Returns examples with classes, after reading the labels of all splits."""
    from datasets import DatasetDict, Features

    from plugformer.data import on_disk

    labels = {name: Labels() for name in splits}
    position = columns.index(label)
    features = Features(features_of([column for column in columns if column is not label]))
    texts = {name: on_disk(labels[name].taken(rows, position), features) for name, rows in splits.items()}
    train = labels["train"].places if "train" in labels else {}
    if declared is None and (pair := look_alikes(train)) is not None:
        one, other = (f"{name!a} ({train[name]})" for name in pair)
        raise DataError(
            f"the labels {one} and {other} look the same, and each would be a class of its own; use one "
            "spelling, or list both classes in data.labels"
        )
    names = class_names(train) if declared is None else list(declared)
    first = first_number(names, ChainMap(*(split.places for split in labels.values())), zero_based=zero_based)
    numbers = class_numbers(names, first)
    for name, split in labels.items():
        for written, where in split.places.items():
            if written not in numbers:
                bad_rows.reject(name, unknown_label(written, where, names, first), split.count(written))
    classes = {name: split.classes(numbers) for name, split in labels.items()}
    return DatasetDict(
        {name: _with_classes(data, label.name, classes[name], names) for name, data in texts.items()}
    )


def _with_classes(
    texts: "Dataset", label: str, classes: "Int[ndarray, ' rows']", names: list[str]
) -> "Dataset":
    """Returns the examples that have a class, with their classes as labels."""
    from datasets import ClassLabel, Dataset, Features, concatenate_datasets

    features = Features({label: ClassLabel(names=names)})
    labels = Dataset.from_dict({label: classes.clip(min=0)}, features=features)
    data = concatenate_datasets([texts, labels], axis=1)
    return data if (classes >= 0).all() else data.select((classes >= 0).nonzero()[0])
