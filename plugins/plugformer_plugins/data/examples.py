"""From rows of text to the splits that a task reads."""

import math
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from plugformer.errors import DataError
from plugformer.interfaces import Column
from plugformer_plugins.data.bad_rows import BadRows
from plugformer_plugins.data.labels import (
    Labels,
    class_names,
    class_numbers,
    first_number,
    refuse_look_alikes,
    unknown_label,
)

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict
    from jaxtyping import Int
    from numpy import ndarray


class Example(NamedTuple):
    """A row: its value in each column that the task needs, and the file and line where it stands."""

    values: tuple[Any, ...]
    place: str


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
    # Python alone takes 1_000 for a thousand, and true for one.
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
    """Refuses tags that are not as many as the words along which they stand.

    Raises:
        DataError: They are not.
    """
    by_name = dict(zip((column.name for column in columns), values, strict=True))
    for column in columns:
        if column.along is not None and len(by_name[column.name]) != len(by_name[column.along]):
            raise DataError(
                f"{place}: {len(by_name[column.along])} {column.along} and {len(by_name[column.name])} "
                f"{column.name}, expected as many; each of the {column.along} needs one"
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
    except UnicodeEncodeError:  # JSON can spell them, and bytes that are not UTF-8 are read as such
        raise DataError(
            f"{place}: the {column} is not UTF-8: {text!r} has a lone surrogate; correct the character"
        ) from None
    return text


def build(
    splits: Mapping[str, Iterable[Example | DataError]],
    columns: Sequence[Column],
    bad_rows: BadRows,
    labels: Sequence[str] | None = None,
    *,
    zero_based: bool | None = None,
) -> "DatasetDict":
    """Returns the splits as memory-mapped data sets.

    Args:
        splits: The rows of each, or what is wrong with them; written to disk as they come, so that there may
            be more than memory holds.
        columns: Of the rows' values; a label becomes a class.
        bad_rows: What happens to rows with a fault.
        labels: Names of the classes; those of the training examples if None.
        zero_based: Whether labels that are numbers count from 0; if None, what the labels show.

    Raises:
        DataError: A row has a fault, or its label is none of the classes, and bad rows are refused; or the
            labels do not show from where they count.
    """
    from datasets import DatasetDict, Features, Value

    from plugformer.data import on_disk

    sound = {name: bad_rows.sound(name, rows) for name, rows in splits.items()}
    if (label := label_column(columns)) is not None:
        return _labeled(sound, columns, label, bad_rows, labels, zero_based)
    types = features_of(columns)
    # What cannot be encoded is found only later: any text can that is nothing but tokenized.
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
    splits: Mapping[str, Iterator[Example]],
    columns: Sequence[Column],
    label: Column,
    bad_rows: BadRows,
    declared: Sequence[str] | None,
    zero_based: bool | None,
) -> "DatasetDict":
    """Returns examples with classes, which are known only when the labels of all splits are."""
    from datasets import DatasetDict, Features

    from plugformer.data import on_disk

    labels = {name: Labels() for name in splits}
    place, others = columns.index(label), [column for column in columns if column is not label]
    features = Features(features_of(others))
    texts = {
        name: on_disk(labels[name].taken(_apart(rows, place)), features) for name, rows in splits.items()
    }
    if declared is None and "train" in labels:
        refuse_look_alikes(labels["train"].places)
    names = class_names(declared, labels["train"].places if "train" in labels else ())
    first = first_number(names, ChainMap(*(each.places for each in labels.values())), zero_based=zero_based)
    numbers = class_numbers(names, first)
    for name, each in labels.items():
        for found, where in each.places.items():
            if found not in numbers:
                bad_rows.reject(name, unknown_label(found, where, names, first), each.count(found))
    classes = {name: each.classes(numbers) for name, each in labels.items()}
    return DatasetDict(
        {name: _with_classes(data, label.name, classes[name], names) for name, data in texts.items()}
    )


def _apart(rows: Iterable[Example], place: int) -> Iterator[tuple[tuple[Any, ...], str, str]]:
    """Yields for each row the other values, the label at a place among them, and where the row stands."""
    for values, where in rows:
        yield (*values[:place], *values[place + 1 :]), values[place], where


def _with_classes(
    texts: "Dataset", label: str, classes: "Int[ndarray, ' rows']", names: list[str]
) -> "Dataset":
    """Returns examples with their classes as labels, without those that have none."""
    from datasets import ClassLabel, Dataset, Features, concatenate_datasets

    features = Features({label: ClassLabel(names=names)})
    labels = Dataset.from_dict({label: classes.clip(min=0)}, features=features)
    data = concatenate_datasets([texts, labels], axis=1)
    return data if (classes >= 0).all() else data.select((classes >= 0).nonzero()[0])
