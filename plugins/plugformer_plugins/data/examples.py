"""From rows of text to the splits that a task reads."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from plugformer.errors import DataError
from plugformer.interfaces import TaskType
from plugformer_plugins.data.bad_rows import BadRows
from plugformer_plugins.data.labels import Labels, class_names, class_numbers, first_class, unknown_label

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict
    from jaxtyping import Int
    from numpy import ndarray


class Example(NamedTuple):
    """A row: source and target, or text and label, and the file and line where it stands."""

    input: str
    output: str
    place: str


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
    task_type: TaskType,
    bad_rows: BadRows,
    labels: Sequence[str] | None = None,
) -> "DatasetDict":
    """Returns the splits as memory-mapped data sets.

    Args:
        splits: The rows of each, or what is wrong with them; written to disk as they come, so that there may
            be more than memory holds.
        task_type: Names the columns; for classification the outputs become classes.
        bad_rows: What happens to rows with a fault.
        labels: Names of the classes; those of the training examples if None.

    Raises:
        DataError: A row has a fault, or its label is none of the classes, and bad rows are refused.
    """
    from datasets import DatasetDict, Features, Value

    from plugformer.data.arrow_files import on_disk

    sound = {name: bad_rows.sound(name, rows) for name, rows in splits.items()}
    if task_type is TaskType.CLASSIFICATION:
        return _labelled(sound, bad_rows, labels)
    features = Features(dict.fromkeys(task_type.columns, Value("string")))
    return DatasetDict(
        {name: on_disk(((row.input, row.output) for row in rows), features) for name, rows in sound.items()}
    )


def _labelled(
    splits: Mapping[str, Iterator[Example]], bad_rows: BadRows, declared: Sequence[str] | None
) -> "DatasetDict":
    """Returns texts with classes, which are known only when the labels of all splits are."""
    from datasets import DatasetDict, Features, Value

    from plugformer.data.arrow_files import on_disk

    labels = {name: Labels() for name in splits}
    feature = Features({"text": Value("string")})
    texts = {name: on_disk(labels[name].taken(rows), feature) for name, rows in splits.items()}
    names = class_names(declared, labels["train"].places if "train" in labels else ())
    first = first_class({label for each in labels.values() for label in each.places})
    numbers = class_numbers(names, first)
    for name, each in labels.items():
        for label, place in each.places.items():
            if label not in numbers:
                bad_rows.reject(name, unknown_label(label, place, names, first), each.count(label))
    classes = {name: each.classes(numbers) for name, each in labels.items()}
    return DatasetDict({name: _with_classes(data, classes[name], names) for name, data in texts.items()})


def _with_classes(texts: "Dataset", classes: "Int[ndarray, ' rows']", names: list[str]) -> "Dataset":
    """Returns texts with their classes as labels, without those that have none."""
    from datasets import ClassLabel, Dataset, Features, concatenate_datasets

    features = Features({"label": ClassLabel(names=names)})
    labels = Dataset.from_dict({"label": classes.clip(min=0)}, features=features)
    data = concatenate_datasets([texts, labels], axis=1)
    return data if (classes >= 0).all() else data.select((classes >= 0).nonzero()[0])
