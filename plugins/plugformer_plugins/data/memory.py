"""Examples that the caller has in memory: lists of dictionaries, columns, data sets, data frames."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plugformer.errors import ConfigurationError, DataError, nearest
from plugformer.interfaces import Column, Data
from plugformer_plugins.data.examples import BadRows, LoadedRow, build, cell, needed, require_aligned

if TYPE_CHECKING:
    from datasets import DatasetDict


class InMemoryData(Data):
    """Rows that `plugformer.train(task, data=...)` was given.

    The rows of a split are a list of dictionaries, a dictionary of columns, a `datasets.Dataset` or a pandas
    data frame.

    Args:
        columns: The column of the rows for each column of the task, such as `{source: german}`. Where it says
            nothing, the names are equal.
        labels: Names of the classes in order; if None, the labels of the training examples.
        zero_based: Whether labels that are numbers count from 0 or from 1; see `table`.
    """

    def __init__(
        self,
        *,
        columns: dict[str, str] | None = None,
        labels: list[str] | None = None,
        zero_based: bool | None = None,
    ) -> None:
        self._columns = columns or {}
        self._labels = labels
        self._zero_based = zero_based

    def load(self, columns: Sequence[Column]) -> "DatasetDict":
        """Returns the splits.

        Raises:
            ConfigurationError: There are no rows.
            DataError: A row lacks a column, or has a value that the column does not hold; with split and row.
        """
        if not self.rows:
            raise ConfigurationError(
                "data 'memory' has no rows: a run does not keep them; pass them with the argument `data`"
            )
        columns = needed(columns)
        splits = {split: self._examples(split, rows, columns) for split, rows in self.rows.items()}
        return build(splits, columns, BadRows("refuse"), self._labels, zero_based=self._zero_based)

    def version(self) -> str:
        """Returns a hash of what the rows contain; it does not depend on their form."""
        digest = hashlib.sha256()
        for split, rows in self.rows.items():
            for record in records(rows):
                line = json.dumps([split, record], sort_keys=True, default=str)
                digest.update(line.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def _examples(self, split: str, rows: Any, columns: Sequence[Column]) -> Iterator[LoadedRow]:
        names = {column.name: self._columns.get(column.name, column.name) for column in columns}
        for number, record in enumerate(records(rows), start=1):
            place = f"{split}, row {number}"
            for name in names.values():
                if name not in record:
                    known = sorted(map(str, record))
                    message = f"{place}: there is no column {name!r}{nearest(name, known)}"
                    raise DataError(f"{message}; it has {', '.join(known)}")
            values = tuple(_value(record[names[column.name]], column, place) for column in columns)
            require_aligned(values, columns, place)
            yield LoadedRow(values, place)


def records(rows: Any) -> Iterator[Mapping[str, Any]]:
    """Yields rows as dictionaries of plain Python values.

    Args:
        rows: A sequence of dictionaries, a dictionary of columns, a `datasets.Dataset` or a data frame.

    Raises:
        DataError: They are something else, or columns differ in length.
    """
    if hasattr(rows, "to_dict") and hasattr(rows, "itertuples"):  # a data frame of pandas
        names = list(rows.columns)
        return (_plain(dict(zip(names, row, strict=True))) for row in rows.itertuples(index=False, name=None))
    if hasattr(rows, "features") and hasattr(rows, "column_names"):  # a data set of `datasets`
        return (_named(record, rows.features) for record in rows)
    if isinstance(rows, Mapping):
        lengths = {name: len(values) for name, values in rows.items()}
        if len(set(lengths.values())) > 1:
            raise DataError(f"the columns of the rows differ in length: {lengths}")
        return (_plain(dict(zip(rows, values, strict=True))) for values in zip(*rows.values(), strict=True))
    return map(_plain, rows)


def _plain(record: Any) -> Mapping[str, Any]:
    if not isinstance(record, Mapping):
        raise DataError(f"a row is {record!r}, expected a dictionary with a value for each column")
    return {name: _python(value) for name, value in record.items()}


def _python(value: Any) -> Any:
    """Returns a scalar or an array of NumPy as a number or a list, and a missing value of pandas as None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return None if isinstance(value, float) and value != value else value


def _named(record: Mapping[str, Any], features: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a row of a data set with names in place of the numbers of classes."""
    classes = {name: feature.names for name, feature in features.items() if hasattr(feature, "names")}
    return {
        name: classes[name][value] if name in classes and isinstance(value, int) and value >= 0 else value
        for name, value in record.items()
    }


def _value(value: Any, column: Column, place: str) -> Any:
    if column.holds == "label" and isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return cell(value, column, place)
