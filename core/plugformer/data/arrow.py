"""Encoded examples in Arrow files, and the limits of their lengths."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, count, islice
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import ClassLabel, Dataset, Features
from numpy.typing import NDArray

from plugformer.cache import scratch_folder
from plugformer.data.encoding import EncodedExamples, EncodedSplit, TokenColumn
from plugformer.data.files import SplitStats
from plugformer.data.processor import SIDES, Processor, sample_subwords
from plugformer.errors import DataError, ExampleError
from plugformer.experiment import Experiment
from plugformer.interfaces import IGNORED, Examples, Level, Limits, Tokenizer

ENCODED = "encoded_"
"""Prefix of the columns with numbers: input, output, targets."""

PLACE = "examples"
"""Folder of the cache for examples."""

ROWS = 1000
"""Rows that are in memory at a time."""


def write_arrow(file: Path, tables: Iterable[pa.Table], features: Features) -> None:
    """Writes the columns of `features` of all tables into one file, which `Dataset.from_file` reads.

    Raises:
        DataError: The disk is full, or fails.
    """
    schema = features.arrow_schema
    try:
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
            for table in tables:
                # Rows selected from a data set have a chunk each, and reading many chunks is slow.
                writer.write_table(table.select(schema.names).cast(schema).combine_chunks())
    except OSError as error:
        raise DataError(
            f"{file}: cannot write examples: {error}; make room, or name another folder with PLUGFORMER_CACHE"
        ) from error


def mapped(write: Callable[[Path], object]) -> Dataset:
    """Returns a memory-mapped data set of the Arrow file that `write` writes."""
    file = scratch_folder(PLACE) / f"{uuid4().hex}.arrow"
    try:
        write(file)
        return Dataset.from_file(str(file))
    finally:
        with suppress(OSError):  # a mapped file stays readable; Windows keeps it until the process ends
            file.unlink()


def on_disk(rows: Iterable[Sequence[object]], features: Features) -> Dataset:
    """Returns rows as a memory-mapped data set; they need not fit in memory.

    Args:
        rows: Each with a value for every column.
        features: Names and types of the columns.
    """
    schema = features.arrow_schema

    def tables() -> Iterator[pa.Table]:
        remaining = iter(rows)
        while chunk := list(islice(remaining, ROWS)):
            columns = zip(*chunk, strict=True)
            arrays = [
                pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)
            ]
            yield pa.Table.from_arrays(arrays, schema=schema)

    return mapped(lambda file: write_arrow(file, tables(), features))


class Texts(Iterable[str]):
    """The texts of columns, one column after the other, for any number of iterations.

    Words of a column are joined by spaces.

    Args:
        data: Has the columns.
        columns: Their names.
    """

    def __init__(self, data: Dataset, *columns: str) -> None:
        self._data = data
        self._columns = columns

    def __iter__(self) -> Iterator[str]:
        for column in self._columns:
            for table in self._data.select_columns(column).with_format("arrow").iter(ROWS):
                for value in table.column(column).to_pylist():
                    yield value if isinstance(value, str) else " ".join(value)


def encode_to_file(file: Path, data: Dataset, processor: Processor, place: Callable[[int], str]) -> Dataset:
    """Writes examples to an Arrow file with their numbers, and returns the task's columns without numbers.

    `place` names a row for error messages; a column `place` of the examples has priority.

    Raises:
        DataError: An example cannot be encoded.
    """
    names = [column.name for column in processor.task_type.columns]
    kept = data.select_columns([name for name in names if name in data.column_names])
    has_places = "place" in data.column_names

    def numbered(start: int, table: pa.Table) -> pa.Table:
        def named(row: int) -> str:
            return str(data[start + row]["place"]) if has_places else place(start + row)

        return with_numbers(table, kept.features, processor, named)

    tables = map(numbered, count(0, ROWS), kept.with_format("arrow").iter(ROWS))
    first = next(tables)
    numbers = {
        name: feature
        for name, feature in Features.from_arrow_schema(first.schema).items()
        if name.startswith(ENCODED)
    }
    write_arrow(file, chain([first], tables), Features({**kept.features, **numbers}))
    return kept


def with_numbers(
    table: pa.Table, features: Features, processor: Processor, place: Callable[[int], str]
) -> pa.Table:
    """Returns examples, whose columns have the types `features`, with the columns of their numbers.

    Raises:
        DataError: An example cannot be encoded.
    """
    examples = {name: table.column(name).to_pylist() for name in table.column_names}
    for name, feature in features.items():
        if isinstance(feature, ClassLabel):
            examples[name] = [feature.names[number] for number in examples[name]]
    try:
        columns = encode(examples, processor)
    except ExampleError as error:
        raise DataError(f"{place(error.row)}: {error}") from error
    for name, array in columns.items():
        table = table.append_column(name, array)
    return table


def encode(examples: Examples, processor: Processor) -> dict[str, pa.Array]:
    """Returns the columns of numbers that a task's type makes of examples; integers in lists have 32 bits.

    Raises:
        ExampleError: An example cannot be encoded, or a target is not finite.
    """
    encoded = processor.task_type.encode(examples, processor.tokenizers)
    columns = {}
    for name, values in encoded.items():
        array = pa.array(values)
        is_list = pa.types.is_list(array.type)
        number = array.type.value_type if is_list else array.type
        no_tokens = pa.types.is_null(number)
        narrow = no_tokens or (is_list and pa.types.is_integer(number))
        columns[ENCODED + name] = array.cast(pa.list_(pa.int32())) if narrow else array
    if "targets" in encoded:
        _check_targets(encoded["targets"], columns[f"{ENCODED}targets"])
    return columns


def _check_targets(targets: Sequence[Any], column: pa.Array) -> None:
    """Raises ExampleError for targets that are infinite, NaN, or the integer IGNORED among floats."""
    numbers = column.flatten() if pa.types.is_list(column.type) else column
    if not pa.types.is_floating(numbers.type):
        return
    ignored = pc.equal(numbers, float(IGNORED))
    if not pc.any(pc.or_(pc.invert(pc.is_finite(numbers)), ignored)).as_py():
        return
    for row, example in enumerate(targets):
        for target in np.ravel(np.array(example, dtype=object)).tolist():
            if target is not None and not math.isfinite(target):
                raise ExampleError(row, f"its target is {target}, expected a finite number")
            if isinstance(target, int) and target == IGNORED:
                raise ExampleError(
                    row,
                    f"a target is the integer {IGNORED} among floats; write None where a token has no target,"
                    f" or {IGNORED}.0 for the number",
                )


def encoded_examples(data: Dataset, level: Level) -> EncodedExamples:
    """Returns the examples of a data set with columns of numbers; targets of tokens are lists."""
    table = data.with_format("arrow")[:]
    tokens = {
        name: token_column(table.column(ENCODED + name))
        for name in SIDES
        if ENCODED + name in table.column_names
    }
    targets: TokenColumn | NDArray[Any] | None = None
    if f"{ENCODED}targets" in table.column_names:
        column = table.column(f"{ENCODED}targets")
        is_list = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
        if level is Level.TOKEN:
            targets = token_column(column)
        else:
            targets = np.array(column.to_pylist()) if is_list else column.to_numpy()
    texts = data.remove_columns([name for name in data.column_names if name.startswith(ENCODED)])
    labels = {name: feature for name, feature in texts.features.items() if isinstance(feature, ClassLabel)}
    if labels:
        texts = texts.with_transform(
            lambda columns: {
                name: labels[name].int2str(values) if name in labels else values
                for name, values in columns.items()
            }
        )
    return EncodedExamples(texts, tokens, targets)


def token_column(column: pa.ChunkedArray) -> TokenColumn:
    """Returns a column of lists of numbers as memory-mapped views; null where a token has no target."""
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    values = []
    for numbers in (chunk.values for chunk in chunks):
        if numbers.null_count:
            numbers = numbers.fill_null(math.nan if pa.types.is_floating(numbers.type) else IGNORED)
        values.append(numbers.to_numpy(zero_copy_only=True))
    return TokenColumn(values, [chunk.offsets.to_numpy(zero_copy_only=True) for chunk in chunks])


def limited(
    data: Dataset, experiment: Experiment, processor: Processor, place: Callable[[int], str]
) -> tuple[EncodedSplit, SplitStats]:
    """Returns encoded examples without those that a task drops for their length, and their counts.

    Raises:
        DataError: An example is too long and the task refuses it.
    """
    task, architecture, task_type = experiment.task, experiment.architecture, processor.task_type
    examples = encoded_examples(data, task_type.level)
    block, max_length = task.data, task.model.max_length
    longest = block.length.max or max_length
    lengths = {name: column.lengths for name, column in examples.tokens.items()}
    if task_type.packed:  # no text is too long for pieces
        split = EncodedSplit(examples, task_type, architecture, piece=min(longest, max_length))
        return split, SplitStats(len(data), longest=int(lengths["output"].max(initial=0)))
    room = architecture.limits(max_length, task_type.level)
    most = Limits(min(room.input, longest), min(room.output, longest), room.together)
    limits = {name: getattr(most, name) for name in lengths}
    too_long = np.any([lengths[side] > limits[side] for side in lengths], axis=0)
    cut = np.sum([np.minimum(lengths[side], limits[side]) for side in lengths], axis=0)
    # Each side fits by itself, so that cutting at the limits does not help.
    beyond = (cut > room.together) & (len(lengths) > 1)
    over = block.length.over
    if over == "refuse" and (refused := too_long | beyond).any():
        row = int(refused.argmax())
        tokens, limit = sum(int(numbers[row]) for numbers in lengths.values()), room.together
        subject = "input and output together have"
        for side in reversed(lengths):
            if lengths[side][row] > limits[side]:
                tokens, limit, subject = lengths[side][row], limits[side], f"its {side} has"
        raise DataError(
            f"{place(row)}: {subject} {tokens} tokens, the limit is {limit} ({int(refused.sum())} of "
            f"{len(refused)} examples are too long); raise model.max_length or data.length.max, or set "
            "data.length.over to drop or truncate"
        )
    dropped = too_long | beyond if over == "drop" else beyond
    drawing = any(type(one).sampling is not Tokenizer.sampling for one in processor.tokenizers)
    sampling = partial(sample_subwords, processor=processor, limits=most, truncate=over == "truncate")
    split = EncodedSplit(
        examples,
        task_type,
        architecture,
        rows=np.flatnonzero(~dropped),
        limits=limits,
        padding=None if block.padding == "batch" else block.padding,
        sampling=sampling if drawing else None,
    )
    return split, SplitStats(
        rows=len(too_long),
        dropped=int(dropped.sum()),
        truncated=int((too_long & ~dropped).sum()),
        longest=max(int(side.max(initial=0)) for side in lengths.values()),
    )
