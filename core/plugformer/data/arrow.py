"""Encoded examples in Arrow files, and the limits of their lengths."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import numpy as np
import pyarrow as pa
from datasets import ClassLabel, Dataset, DatasetDict, Features
from numpy.typing import NDArray

from plugformer.cache import scratch_folder
from plugformer.data.encoding import EncodedSplit
from plugformer.data.files import SplitStats
from plugformer.data.processor import Processor, sample_subwords
from plugformer.errors import DataError
from plugformer.experiment import Experiment
from plugformer.interfaces import Encoded, Level, Ragged, Tokenizer
from plugformer.interfaces.spec import Limits

ENCODED = "encoded_"  # prefix of the columns with numbers
PLACE = "examples"  # folder of the cache
ROWS = 1000  # in memory at a time


TextSplits = tuple[DatasetDict, Callable[[], Dataset], Sequence[str]]
"""Examples as text: what is to be prepared, what returns those that tokenizers learn from, and notices."""


def write_arrow(file: Path, tables: Iterable[pa.Table], features: Features) -> None:
    """Writes the columns of `features` of all tables into one file, which `Dataset.from_file` reads."""
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


def on_disk(rows: Iterable[Sequence[object]], features: Features) -> Dataset:
    """Returns rows, which need not fit in memory, as a memory-mapped data set with these columns."""
    schema, remaining = features.arrow_schema, iter(rows)

    def tables() -> Iterator[pa.Table]:
        while chunk := list(islice(remaining, ROWS)):
            columns = zip(zip(*chunk, strict=True), schema.types, strict=True)
            arrays = [pa.array(column, type=kind) for column, kind in columns]
            yield pa.Table.from_arrays(arrays, schema=schema)

    file = scratch_folder(PLACE) / f"{uuid4().hex}.arrow"
    try:
        write_arrow(file, tables(), features)
        return Dataset.from_file(str(file))
    finally:
        with suppress(OSError):  # a mapped file stays readable; Windows keeps it until the process ends
            file.unlink()


class ColumnTexts(Iterable[str]):
    """The texts of columns, one column after the other, for any number of iterations; spaces join words."""

    def __init__(self, data: Dataset, *columns: str) -> None:
        self._data = data
        self._columns = columns

    def __iter__(self) -> Iterator[str]:
        for name in self._columns:
            for table in self._data.select_columns(name).with_format("arrow").iter(ROWS):
                for value in table.column(name).to_pylist():
                    yield value if isinstance(value, str) else " ".join(value)


def encode_to_file(file: Path, data: Dataset, processor: Processor, split: str) -> Dataset:
    """Writes examples to an Arrow file with their numbers, and returns the task's columns without numbers."""
    names = [column.name for column in processor.task_type.columns]
    kept = data.select_columns([name for name in names if name in data.column_names])

    labels = {name: feature for name, feature in kept.features.items() if isinstance(feature, ClassLabel)}

    def numbered(start: int, table: pa.Table) -> pa.Table:
        def place(row: int) -> str:
            return str(data[start + row].get("place", f"{split}, example {start + row + 1}"))

        examples = {name: table.column(name).to_pylist() for name in table.column_names}
        examples |= {name: feature.int2str(examples[name]) for name, feature in labels.items()}
        for name, column in columns_of(processor.encode_examples(examples, place)).items():
            table = table.append_column(name, column)
        return table

    tables = map(numbered, count(0, ROWS), kept.with_format("arrow").iter(ROWS))
    first = next(tables)
    features = Features({**Features.from_arrow_schema(first.schema), **kept.features})
    write_arrow(file, chain([first], tables), features)
    return kept


def columns_of(encoded: Encoded) -> dict[str, pa.Array]:
    """Returns encoded examples as columns; integers in lists have 32 bits."""
    columns = {name: _lists(part) for name, part in encoded.parts.items()}
    for name, numbers in (("targets", encoded.targets), ("weights", encoded.weights)):
        if isinstance(numbers, Ragged):
            columns[name] = _lists(numbers)
        elif numbers is not None:
            columns[name] = pa.array(numbers.tolist())
    return {f"{ENCODED}{name}": column for name, column in columns.items()}


def _lists(part: Ragged) -> pa.ListArray:
    def of(lengths: NDArray[Any], items: pa.Array) -> pa.ListArray:
        return pa.ListArray.from_arrays(pa.array([0, *np.cumsum(lengths)], pa.int32()), items)

    values = pa.array(part.values)
    sequences = of(part.lengths, values.cast(pa.int32()) if pa.types.is_integer(values.type) else values)
    return sequences if part.counts is None else of(part.counts, sequences)


def encoded_examples(data: Dataset, level: Level) -> tuple[Dataset, Encoded]:
    """Returns the texts of a data set with columns of numbers, labels by their names, and the numbers."""
    table = data.with_format("arrow")[:]
    columns = {name: table.column(name) for name in table.column_names if name.startswith(ENCODED)}
    numbers = {name.removeprefix(ENCODED): column for name, column in columns.items()}
    targets, weights = (
        _by_example(numbers.pop(name, None), listed=name == "weights" or level is Level.TOKEN)
        for name in ("targets", "weights")
    )
    parts = {name: ragged(column) for name, column in numbers.items()}
    output = parts.pop("output", None)
    texts = data.remove_columns(list(columns))
    labels = {name: feature for name, feature in texts.features.items() if isinstance(feature, ClassLabel)}
    if labels:
        texts = texts.with_transform(
            lambda rows: rows | {name: labels[name].int2str(rows[name]) for name in labels if name in rows}
        )
    return texts, Encoded(parts, output, targets, weights=weights)


def _by_example(column: pa.ChunkedArray | None, *, listed: bool) -> Ragged | NDArray[Any] | None:
    """Returns the numbers of examples: an array, or sequences if they are `listed` or differ in number."""
    if column is None or not pa.types.is_nested(column.type):
        return None if column is None else column.to_numpy()
    found = ragged(column)
    return found if listed or len(set(found.lengths)) > 1 else np.array(column.to_pylist())


@dataclass(frozen=True)
class _Stored(Ragged):
    """Sequences to take some of, in several memory-mapped arrays in place of `values`."""

    arrays: Sequence[NDArray[Any]] = ()

    @cached_property
    def _first(self) -> NDArray[np.integer[Any]]:
        """The place of each array in all of them."""
        sizes = np.array([len(array) for array in self.arrays], dtype=np.int64)
        return cast("NDArray[np.integer[Any]]", np.cumsum(sizes) - sizes)

    def gather(self, starts: NDArray[np.integer[Any]], lengths: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Returns the values of ranges that are within one array each, end to end."""
        numbers = np.searchsorted(self._first, starts, side="right") - 1
        starts = starts - self._first[numbers]
        places = zip(numbers.tolist(), starts.tolist(), (starts + lengths).tolist(), strict=True)
        pieces = [self.arrays[number][start:stop] for number, start, stop in places]
        return np.concatenate(pieces) if pieces else self.values


def ragged(column: pa.ChunkedArray) -> Ragged:
    """Returns a column of lists of numbers, or of lists of these, as memory-mapped views."""
    chunks, counts = [chunk for chunk in column.chunks if len(chunk)], None
    if pa.types.is_list(column.type.value_type):
        counts = np.concatenate([np.diff(chunk.offsets) for chunk in chunks]).astype(np.int64)
        chunks = [chunk.flatten() for chunk in chunks]
    arrays = [chunk.flatten().to_numpy(zero_copy_only=True) for chunk in chunks]
    lengths = [np.empty(0, dtype=np.int64), *(chunk.value_lengths().to_numpy() for chunk in chunks)]
    return _Stored(np.empty(0, dtype=np.int64), np.concatenate(lengths), counts, arrays)


def limited(
    examples: Any,
    encoded: Encoded,
    experiment: Experiment,
    processor: Processor,
    place: Callable[[int], str],
    *,
    training: bool,
) -> tuple[EncodedSplit, SplitStats]:
    """Returns examples, encoded, without those that a task drops for their length, and their counts.

    Raises:
        DataError: An example is too long and the task refuses it; `place` names its row.
    """
    task, task_type = experiment.task, processor.task_type
    block, max_length = task.data, task.model.max_length
    longest, over = block.length.max or max_length, block.length.over
    if training:
        longest = block.length.training or longest
    lengths = {name: part.longest for name, part in encoded.parts.items()}
    make = partial(EncodedSplit, examples, encoded, task_type, experiment.architecture)
    stats = SplitStats(len(examples), longest=max(int(side.max(initial=0)) for side in lengths.values()))
    if task_type.packed:  # no text is too long for pieces
        return make(piece=min(longest, max_length)), stats
    room = experiment.architecture.limits(max_length, task_type.level)
    room = Limits(min(room.input, longest), min(room.output, longest), room.together)
    limits = {name: room.of(name) for name in lengths}
    too_long = np.any([lengths[side] > limits[side] for side in lengths], axis=0)
    cut = np.sum([np.minimum(lengths[side], limits[side]) for side in lengths], axis=0)
    # Each side fits by itself, so that cutting at the limits does not help.
    beyond = (cut > room.together) & (len(lengths) > 1)
    if over == "refuse" and (refused := too_long | beyond).any():
        row = int(refused.argmax())
        tokens, limit = sum(int(numbers[row]) for numbers in lengths.values()), room.together
        subject = f"{' and '.join(lengths)} together have"
        for side in reversed(lengths):
            if lengths[side][row] > limits[side]:
                tokens, limit, subject = lengths[side][row], limits[side], f"its {side} has"
        raise DataError(
            f"{place(row)}: {subject} {tokens} tokens, the limit is {limit} ({int(refused.sum())} of "
            f"{len(refused)} examples are too long); raise model.max_length or data.length.max, or set "
            "data.length.over to drop or truncate"
        )
    dropped = too_long | beyond if over == "drop" else beyond
    stats.dropped, stats.truncated = int(dropped.sum()), int((too_long & ~dropped).sum())
    drawing = any(type(one).sampling is not Tokenizer.sampling for one in processor.tokenizers)
    sampling = partial(sample_subwords, processor=processor, limits=room, truncate=over == "truncate")
    split = make(
        rows=np.flatnonzero(~dropped),
        limits=limits,
        padding=0 if block.padding == "batch" else block.padding,
        sampling=sampling if drawing else None,
    )
    return split, stats
