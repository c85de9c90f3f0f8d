"""Examples in Arrow files: written a few rows at a time, read memory-mapped."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from datasets import Dataset, Features

from plugformer.cache import scratch_folder
from plugformer.errors import DataError

PLACE = "examples"
"""Folder of the cache for examples."""

ROWS = 1000
"""Rows that are in memory at a time."""


def write_arrow(file: Path, tables: Iterable[pa.Table], features: Features) -> None:
    """Writes tables one after the other into one file, which `Dataset.from_file` reads.

    Args:
        file: Where to.
        tables: With the columns of `features`, in any order, and possibly others, which are left out.
        features: Names and types of the columns.

    Raises:
        DataError: The disk is full, or fails.
    """
    schema = features.arrow_schema
    try:
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
            for table in tables:
                # Rows picked from a data set come in a chunk each, and reading many chunks is slow.
                writer.write_table(table.select(schema.names).cast(schema).combine_chunks())
    except OSError as error:
        raise DataError(
            f"{file}: cannot write examples: {error}; make room, or name another folder with PLUGFORMER_CACHE"
        ) from error


def on_disk(rows: Iterable[Sequence[object]], features: Features) -> Dataset:
    """Returns rows as a memory-mapped data set: there may be more of them than memory holds.

    Args:
        rows: Each with a value for every column; consumed as they are written.
        features: Names and types of the columns.
    """
    file = scratch_folder(PLACE) / f"{uuid4().hex}.arrow"
    try:
        write_arrow(file, _tables(rows, features.arrow_schema), features)
        return Dataset.from_file(str(file))
    finally:
        with suppress(OSError):  # what is mapped stays readable; Windows keeps it until the process ends
            file.unlink()


def _tables(rows: Iterable[Sequence[object]], schema: pa.Schema) -> Iterator[pa.Table]:
    remaining = iter(rows)
    while chunk := list(islice(remaining, ROWS)):
        columns = zip(*chunk, strict=True)
        arrays = [pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)]
        yield pa.Table.from_arrays(arrays, schema=schema)
