"""Splits of a data set of the Hugging Face Hub, read as their examples are asked for."""

from collections.abc import Mapping
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from plugformer.errors import ConfigurationError, DataError, nearest
from plugformer.interfaces import TaskType
from plugformer_plugins.data.bad_rows import Policy
from plugformer_plugins.data.examples import require_text
from plugformer_plugins.data.streams import class_features

if TYPE_CHECKING:
    from datasets import IterableDataset


def streamed(
    data: "IterableDataset", columns: list[str], task_type: TaskType, place: str, bad_rows: Policy
) -> "IterableDataset":
    """Returns a split with the columns of a task.

    Args:
        data: The split.
        columns: Its columns for input and output; a field of a nested column by a dot.
        task_type: Names them.
        place: Which split this is, for messages.
        bad_rows: Whether a fault stops the reading, or is passed on for the core to count.

    Raises:
        ConfigurationError: A column is not there, or labels are no classes.
    """
    data = data if data.features else data._resolve_features()
    given: Mapping[str, Any] = data.features
    for column in columns:
        if column.split(".")[0] not in given:
            raise ConfigurationError(
                f"data 'hub': {place} has no column {column!r}{nearest(column, given)}, only "
                f"{sorted(given)}; say in data.columns which one is meant"
            )
    names = getattr(given.get(columns[1]), "names", None)
    features = class_features(names) if task_type is TaskType.CLASSIFICATION else None
    select = partial(
        _selected, columns=columns, names=task_type.columns, place=place, strict=bad_rows == "refuse"
    )
    return data.map(select, remove_columns=list(given), features=features)


def named(value: Any, feature: Any) -> Any:
    """Returns a class by its name, a number as text, and anything else as it is."""
    if hasattr(feature, "int2str") and value is not None and value >= 0:
        return feature.int2str(value)
    return str(value) if type(value) is int else value


def _selected(
    row: Mapping[str, Any], columns: list[str], names: tuple[str, str], place: str, strict: bool
) -> dict[str, Any]:
    """Returns a row with the columns of a task, or with what is wrong with it."""
    first, second = names
    inputs, output = (_value(row, column) for column in columns)
    where = f"{place}, row {str(dict(row))[:80]}"
    try:
        found: tuple[Any, ...] = require_text(inputs, first, where), _output(output, second, where), None
    except DataError as error:
        if strict:
            raise
        found = "", 0 if second == "label" else "", str(error)
    return {**dict(zip((first, second, "fault"), found, strict=True)), "place": place}


def _output(value: Any, name: str, where: str) -> Any:
    if name != "label":
        return require_text(named(value, None), name, where)
    if value is None or value < 0:  # how data sets of the Hub say that there is none
        raise DataError(f"{where}: the label is {value!r}, expected a class; remove the row")
    return value


def _value(row: Mapping[str, Any], column: str) -> Any:
    """Returns a cell; of a nested column by its dotted name."""
    return reduce(lambda cell, name: cell[name], column.split("."), row) if column not in row else row[column]
