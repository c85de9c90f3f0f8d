"""Examples with the numbers that a task's type makes of them, as columns of Arrow tables and files."""

import math
from collections.abc import Callable, Sequence
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import ClassLabel, Dataset, Features

from plugformer.data.arrow import ENCODED, ROWS, write_arrow
from plugformer.data.vocabularies import Vocabularies
from plugformer.errors import DataError, ExampleError
from plugformer.interfaces import IGNORED, Examples


def encode_to_file(
    file: Path, data: Dataset, vocabularies: Vocabularies, place: Callable[[int], str]
) -> Dataset:
    """Writes examples to an Arrow file, with what the task's type makes of them.

    Args:
        file: Where to.
        data: The examples.
        vocabularies: Of the task.
        place: Returns where a row stands, if the examples do not say so themselves.

    Returns:
        What was written without its numbers: the columns that the task has.

    Raises:
        DataError: An example cannot be encoded.
    """
    named = [column.name for column in vocabularies.task_type.columns]
    kept = data.select_columns([name for name in named if name in data.column_names])

    def numbered(start: int, table: pa.Table) -> pa.Table:
        def stands(row: int) -> str:
            own = "place" in data.column_names
            return str(data[start + row]["place"]) if own else place(start + row)

        return with_numbers(table, kept.features, vocabularies, stands)

    tables = map(numbered, count(0, ROWS), kept.with_format("arrow").iter(ROWS))
    first = next(tables)
    numbers = {
        name: feature
        for name, feature in Features.from_arrow_schema(first.schema).items()
        if name.startswith(ENCODED)
    }
    write_arrow(file, chain([first], tables), Features({**kept.features, **numbers}))
    return kept


def encode(examples: Examples, vocabularies: Vocabularies) -> dict[str, pa.Array]:
    """Returns the columns of what a task's type makes of examples.

    Raises:
        ExampleError: An example cannot be encoded, or a target is not finite.
    """
    encoded = vocabularies.task_type.encode(examples, vocabularies.tokenizers)
    columns = {ENCODED + name: _array(values) for name, values in encoded.items()}
    if "targets" in encoded:
        _check_targets(encoded["targets"], columns[f"{ENCODED}targets"])
    return columns


def _check_targets(targets: Sequence[Any], column: pa.Array) -> None:
    """Refuses floats that are no targets: infinite ones, NaN, and IGNORED, which is one of the numbers.

    Raises:
        ExampleError: There is one.
    """
    numbers = column.flatten() if pa.types.is_list(column.type) else column
    if not pa.types.is_floating(numbers.type):
        return
    ignored = pc.equal(numbers, float(IGNORED))
    if not pc.any(pc.or_(pc.invert(pc.is_finite(numbers)), ignored)).as_py():
        return
    for row, each in enumerate(targets):
        several: list[Any] = np.ravel(np.array(each, dtype=object)).tolist()
        for target in several:
            if target is not None and not math.isfinite(target):
                raise ExampleError(row, f"its target is {target}, expected a finite number")
            if isinstance(target, int) and target == IGNORED:
                raise ExampleError(
                    row,
                    f"a target is the integer {IGNORED} among floats; write None where a token has no target,"
                    f" or {IGNORED}.0 for the number",
                )


def with_numbers(
    table: pa.Table, features: Features, vocabularies: Vocabularies, place: Callable[[int], str]
) -> pa.Table:
    """Returns examples with the columns of what a task's type makes of them.

    Args:
        table: The examples.
        features: The types of their columns.
        vocabularies: Of the task.
        place: Returns where a row stands.

    Raises:
        DataError: An example cannot be encoded.
    """
    examples = {name: table.column(name).to_pylist() for name in table.column_names}
    for name, feature in features.items():
        if isinstance(feature, ClassLabel):
            examples[name] = [feature.names[each] for each in examples[name]]
    try:
        columns = encode(examples, vocabularies)
    except ExampleError as error:
        raise DataError(f"{place(error.row)}: {error}") from error
    for name, array in columns.items():
        table = table.append_column(name, array)
    return table


def _array(values: Sequence[Any]) -> pa.Array:
    """Returns numbers, or lists of them, as narrow as tokens allow."""
    found = pa.array(values)
    lists = pa.types.is_list(found.type)
    each = found.type.value_type if lists else found.type
    no_tokens = pa.types.is_null(each)
    return found.cast(pa.list_(pa.int32())) if no_tokens or (lists and pa.types.is_integer(each)) else found
