"""Splits of a data set of the Hugging Face Hub, read as their examples are asked for."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from plugformer.errors import ConfigurationError, DataError, nearest
from plugformer.interfaces import Column
from plugformer_plugins.data.bad_rows import Policy
from plugformer_plugins.data.examples import cell, label_column, require_aligned
from plugformer_plugins.data.streams import empty_values, stream_features

if TYPE_CHECKING:
    from datasets import IterableDataset


def streamed(
    data: "IterableDataset", names: list[str], columns: Sequence[Column], place: str, bad_rows: Policy
) -> "IterableDataset":
    """Returns a split with the columns of a task.

    Args:
        data: The split.
        names: What it calls them; a field of a nested column by a dot.
        columns: Of the task.
        place: Which split this is, for messages.
        bad_rows: Whether a fault stops the reading, or is passed on for the core to count.

    Raises:
        ConfigurationError: A column is not there, or labels are no classes.
    """
    data = data if data.features else data._resolve_features()
    given: Mapping[str, Any] = data.features
    for name in names:
        if name.split(".")[0] not in given:
            raise no_column(name, given, place)
    label = label_column(columns)
    classes = None if label is None else getattr(given.get(names[columns.index(label)]), "names", None)
    features = None if label is None else stream_features(columns, classes)
    types = [
        None if column is label else given.get(name)  # nested ones have none
        for name, column in zip(names, columns, strict=True)
    ]
    select = partial(
        _selected, names=names, columns=columns, types=types, place=place, strict=bad_rows == "refuse"
    )
    return data.map(select, remove_columns=list(given), features=features)


def no_column(name: str, given: Collection[str], place: str) -> ConfigurationError:
    """Returns the error of a column that a data set, or its split, lacks."""
    return ConfigurationError(
        f"data 'hub': {place} has no column {name!r}{nearest(name, given)}, only {sorted(given)}; "
        "say in data.columns which one is meant"
    )


def value(found: Any, feature: Any, column: Column, place: str) -> Any:
    """Returns a column's value: classes by their names, numbers in text columns as text.

    Raises:
        DataError: It is something else.
    """
    if isinstance(found, list):
        inner = getattr(feature, "feature", None)
        return cell([_named(each, inner) for each in found], column, place)
    return cell(found if column.holds == "number" else _named(found, feature), column, place)


def _named(found: Any, feature: Any) -> Any:
    """Returns a class by its name, a number as text, and anything else as it is."""
    if hasattr(feature, "int2str") and found is not None and found >= 0:
        return feature.int2str(found)
    return str(found) if type(found) is int else found


def _selected(
    row: Mapping[str, Any],
    names: list[str],
    columns: Sequence[Column],
    types: list[Any],
    place: str,
    strict: bool,
) -> dict[str, Any]:
    """Returns a row with the columns of a task, or with what is wrong with it."""
    where = f"{place}, row {str(dict(row))[:80]}"
    try:
        values = [
            _class(_value(row, name), where)
            if column.holds == "label"
            else value(_value(row, name), feature, column, where)
            for name, column, feature in zip(names, columns, types, strict=True)
        ]
        require_aligned(values, columns, where)
        found = {column.name: each for column, each in zip(columns, values, strict=True)} | {"fault": None}
    except DataError as error:
        if strict:
            raise
        found = empty_values(columns) | {"fault": str(error)}
    return {**found, "place": place}


def _class(found: Any, where: str) -> Any:
    if found is None or found < 0:  # how data sets of the Hub say that there is none
        raise DataError(f"{where}: the label is {found!r}, expected a class; remove the row")
    return found


def _value(row: Mapping[str, Any], column: str) -> Any:
    """Returns a cell; of a nested column by its dotted name."""
    return reduce(lambda cell, name: cell[name], column.split("."), row) if column not in row else row[column]
