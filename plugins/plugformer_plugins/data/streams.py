"""Splits that are read as their examples are asked for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from plugformer.errors import ConfigurationError, DataError, nearest
from plugformer.interfaces import TaskType
from plugformer_plugins.data.bad_rows import Policy
from plugformer_plugins.data.examples import Example

if TYPE_CHECKING:
    from datasets import Features, IterableDatasetDict

Shard = TypeVar("Shard")


def stream(
    shards: Mapping[str, Sequence[Shard]],
    read: Callable[[Shard], Iterator[Example | DataError]],
    task_type: TaskType,
    bad_rows: Policy,
    labels: Sequence[str] | None = None,
) -> "IterableDatasetDict":
    """Returns splits unread.

    Args:
        shards: What each is made of, such as files.
        read: Yields the rows of a shard, or what is wrong with them.
        task_type: Names the columns.
        bad_rows: Whether a fault stops the reading, or is passed on for the core to count.
        labels: Names of the classes.

    Raises:
        ConfigurationError: There are classes, and nobody has named them.
    """
    from datasets import IterableDataset, IterableDatasetDict

    classified = task_type is TaskType.CLASSIFICATION
    features = class_features(labels) if classified else None
    classes = {name: number for number, name in enumerate(labels or ()) if classified}
    return IterableDatasetDict(
        {
            split: IterableDataset.from_generator(
                _rows,
                features=features,
                gen_kwargs={
                    "shards": list(each),  # `datasets` takes the list in here for the shards
                    "read": read,
                    "columns": task_type.columns,
                    "strict": bad_rows == "refuse",
                    "classes": classes,
                },
            )
            for split, each in shards.items()
        }
    )


def class_features(labels: Sequence[str] | None) -> "Features":
    """Returns the types of the columns of a stream of texts with labels.

    Raises:
        ConfigurationError: The names of the classes are not known.
    """
    from datasets import ClassLabel, Features, Value

    if not labels:
        raise ConfigurationError(
            "data.streaming: the classes are not known before all examples are read; name them in data.labels"
        )
    text = Value("string")
    return Features({"text": text, "label": ClassLabel(names=list(labels)), "place": text, "fault": text})


def _rows(
    shards: Sequence[Shard],
    read: Callable[[Shard], Iterator[Example | DataError]],
    columns: tuple[str, str],
    strict: bool,
    classes: Mapping[str, int],
) -> Iterator[dict[str, Any]]:
    for shard in shards:
        for row in read(shard):
            found = _with_class(row, classes) if classes else row
            if not isinstance(found, DataError):
                yield dict(zip((*columns, "place", "fault"), (*found, None), strict=True))
            elif strict:
                raise found
            else:
                empty = ("", 0 if classes else "", "", str(found))
                yield dict(zip((*columns, "place", "fault"), empty, strict=True))


def _with_class(row: Example | DataError, classes: Mapping[str, int]) -> tuple[str, int, str] | DataError:
    """Returns text, class and place of a row; what is wrong with it if its label is the name of no class."""
    if isinstance(row, DataError):
        return row
    if row.output not in classes:
        return DataError(
            f"{row.place}: unknown label {row.output!r}{nearest(row.output, classes)}; expected one of "
            f"{list(classes)}; correct it, or complete data.labels (numbers are no names in streamed data)"
        )
    return row.input, classes[row.output], row.place
