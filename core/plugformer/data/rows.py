"""Rows and texts that the caller has in memory, in any form that can be iterated over."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from plugformer.errors import DataError


def iterate_rows(rows: Any, expected: str) -> Iterator[Any]:
    """Yields rows; dictionaries, and those of a pandas data frame, with plain Python values.

    Args:
        rows: A data frame, or anything iterable but a single text, path or dictionary.
        expected: What an error says was expected.

    Raises:
        DataError: They are something else, or several columns have the same name.
    """
    if hasattr(rows, "itertuples"):  # a data frame of pandas
        names = list(rows.columns)
        if len(twice := rows.columns[rows.columns.duplicated()]):
            raise DataError(f"several columns are called {twice[0]!r}; rename all but one")
        rows = (dict(zip(names, row, strict=True)) for row in rows.itertuples(index=False, name=None))
    if isinstance(rows, str | Path | Mapping) or not isinstance(rows, Iterable):
        raise DataError(f"found {str(rows)[:40]!r}, expected {expected}")
    for row in rows:
        yield {name: _python(value) for name, value in row.items()} if isinstance(row, Mapping) else row


def _python(value: Any) -> Any:
    """Returns a scalar or an array of NumPy as a number or a list, and a missing value of pandas as None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return None if isinstance(value, float) and value != value else value
