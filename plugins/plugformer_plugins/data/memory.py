"""Examples that the caller has in memory: lists of dictionaries, columns, data sets, data frames."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from plugformer.data import iterate_rows
from plugformer.errors import ConfigurationError, DataError, nearest
from plugformer.interfaces import Column, Data
from plugformer_plugins.data.hub import named
from plugformer_plugins.data.rows import LoadedRow, RowData, loaded_row


class InMemoryData(RowData):
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
        self._columns: Mapping[str, str] = columns or {}
        self._labels = labels
        self._zero_based = zero_based

    stream = Data.stream

    def sources(self) -> Mapping[str, Sequence[str]]:
        """Returns the names of the splits.

        Raises:
            ConfigurationError: There are no rows.
        """
        if not self.rows:
            raise ConfigurationError(
                "data 'memory' has no rows, since a run does not keep them\n"
                "pass rows in Python with the argument `data` (evaluate measures all that it is given), or "
                "name files with --set data.name=table --set data.files.train=FILE"
            )
        return {split: [split] for split in self.rows}

    def names(self, source: str) -> Sequence[str]:
        """Returns the names of the first row's columns."""
        return [*next(records(self.rows[source]), {})]

    def read(self, source: str, columns: Sequence[Column]) -> Iterator[LoadedRow | DataError]:
        """Yields the rows of a split.

        Raises:
            DataError: A row lacks a column, or has a value that the column does not hold; with split and row.
        """
        names = [self._columns.get(column.name, column.name) for column in columns]
        for number, record in enumerate(records(self.rows[source]), start=1):
            place = f"{source}, row {number}"
            for name in names:
                if name not in record:
                    known = sorted(map(str, record))
                    raise DataError(
                        f"{place}: there is no column {name!r}{nearest(name, known)}, only {known}"
                    )
            yield loaded_row([record[name] for name in names], columns, place)

    def version(self) -> str:
        """Returns a hash of what the rows contain; it does not depend on their form."""
        digest = hashlib.sha256()
        for split, rows in self.rows.items():
            for record in records(rows):
                line = json.dumps([split, record], sort_keys=True, default=str)
                digest.update(line.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def records(rows: Any) -> Iterator[Mapping[str, Any]]:
    """Yields rows, in any of the forms that `InMemoryData` takes, as dictionaries of plain Python values.

    Raises:
        DataError: They are, or a row is, something else; columns differ in length, or several have one name.
    """
    features = getattr(rows, "features", {})  # of a data set, which may name classes
    if isinstance(rows, Mapping):
        lengths = {name: len(values) for name, values in rows.items()}
        if len(set(lengths.values())) > 1:
            raise DataError(f"the columns of the rows differ in length: {lengths}")
        rows = [dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)]
    for record in iterate_rows(rows, "rows in memory; name files in data.files"):
        if not isinstance(record, Mapping):
            raise DataError(f"a row is {record!r}, expected a dictionary with a value for each column")
        yield {name: named(value, features.get(name)) for name, value in record.items()}
