"""Splits that are read as their examples are asked for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from plugformer.errors import ConfigurationError, DataError, nearest
from plugformer.interfaces import Column
from plugformer_plugins.data.examples import LoadedRow, Policy, features_of, label_column
from plugformer_plugins.data.labels import class_numbers, first_number

if TYPE_CHECKING:
    from datasets import Features, IterableDatasetDict

Shard = TypeVar("Shard")


def stream(
    shards: Mapping[str, Sequence[Shard]],
    read: Callable[[Shard], Iterator[LoadedRow | DataError]],
    columns: Sequence[Column],
    bad_rows: Policy,
    labels: Sequence[str] | None = None,
    *,
    zero_based: bool | None = None,
) -> "IterableDatasetDict":
    """Returns splits unread.

    Args:
        shards: What each is made of, such as files.
        read: Yields the rows of a shard, or what is wrong with them.
        columns: Of the rows' values.
        bad_rows: Whether a fault stops the reading, or is passed on for the core to count.
        labels: Names of the classes.
        zero_based: Whether labels that are numbers count from 0; if None, numbers are no labels.

    Raises:
        ConfigurationError: There are classes, and nobody has named them.
    """
    from datasets import IterableDataset, IterableDatasetDict

    label = label_column(columns)
    features = stream_features(columns, labels)
    names = () if label is None else labels or ()
    first = None if zero_based is None else first_number(names, {}, zero_based=zero_based)
    return IterableDatasetDict(
        {
            split: IterableDataset.from_generator(
                _rows,
                features=features,
                gen_kwargs={
                    "shards": list(each),  # `datasets` takes the list in here for the shards
                    "read": read,
                    "columns": tuple(columns),  # `datasets` would take a list for shards
                    "strict": bad_rows == "refuse",
                    "classes": class_numbers(names, first),
                },
            )
            for split, each in shards.items()
        }
    )


def stream_features(columns: Sequence[Column], labels: Sequence[str] | None) -> "Features":
    """Returns the types of the columns of a stream, with those for places and faults.

    Raises:
        ConfigurationError: There are classes, and their names are not known.
    """
    from datasets import ClassLabel, Features, Value

    types = features_of(columns)
    if (label := label_column(columns)) is not None:
        if not labels:
            raise ConfigurationError(
                "data.streaming: the classes are not known before all examples are read; name them in "
                "data.labels"
            )
        types[label.name] = ClassLabel(names=list(labels))
    return Features({**types, "place": Value("string"), "fault": Value("string")})


def empty_values(columns: Sequence[Column]) -> dict[str, Any]:
    """Returns the placeholder for a row that cannot be used."""
    empty = {"text": "", "label": 0, "number": 0.0}
    return {column.name: empty.get(column.holds, []) for column in columns}


def _rows(
    shards: Sequence[Shard],
    read: Callable[[Shard], Iterator[LoadedRow | DataError]],
    columns: tuple[Column, ...],
    strict: bool,
    classes: Mapping[str, int],
) -> Iterator[dict[str, Any]]:
    label = label_column(columns)
    names = [column.name for column in columns]
    for shard in shards:
        for row in read(shard):
            found = row if label is None else _with_class(row, columns.index(label), classes)
            if not isinstance(found, DataError):
                yield dict(zip((*names, "place", "fault"), (*found.values, found.place, None), strict=True))
            elif strict:
                raise found
            else:
                yield {**empty_values(columns), "place": "", "fault": str(found)}


def _with_class(row: LoadedRow | DataError, at: int, classes: Mapping[str, int]) -> LoadedRow | DataError:
    """Returns a row with the number of its class; what is wrong with it if its label is the name of none."""
    if isinstance(row, DataError):
        return row
    label = row.values[at]
    if label not in classes:
        return DataError(
            f"{row.place}: unknown label {label!r}{nearest(label, classes)}; expected one of "
            f"{list(classes)}; correct it, or complete data.labels (numbers need data.zero_based)"
        )
    return row._replace(values=(*row.values[:at], classes[label], *row.values[at + 1 :]))
