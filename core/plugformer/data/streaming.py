"""Training examples that are read during training, in blocks.

Each block is read, shuffled and cut into batches as a whole. Its content and order depend only on the seed
and on the position where it begins, so a checkpoint saves only that position.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Annotated, Any

import numpy as np
from datasets import Dataset, DatasetDict, Features, IterableDataset, Value
from datasets.distributed import split_dataset_by_node
from jaxtyping import Int
from numpy import ndarray
from pydantic import ConfigDict, Field

from plugformer.configuration.task import Task
from plugformer.data.arrow import limited, on_disk, with_numbers
from plugformer.data.encoding import EncodedSplit, Rows
from plugformer.data.files import Row, SplitStats
from plugformer.data.processor import Processor
from plugformer.data.splitting import refuse_other_classes
from plugformer.errors import DataError, RegistryError
from plugformer.interfaces import Architecture, Column, as_text
from plugformer.interfaces.batch import Batch
from plugformer.interfaces.data import Data

Natural = Annotated[int, Field(ge=0)]

Order = Callable[[Int[ndarray, "examples sides"]], Callable[[int], list[Rows]]]
"""From the lengths of some examples and the number of their epoch to batches of them."""


def open_streams(component: Data, columns: Sequence[Column]) -> dict[str, IterableDataset]:
    """Returns the splits of a task, unread.

    Raises:
        DataError: There is no train or validation split, or a file is missing.
        RegistryError: The component gives no classes, or not the same for all splits.
    """
    streams = dict(component.stream(columns))
    for name in ("train", "validation"):
        if name not in streams:
            raise DataError(
                f"the data have no split {name!r}, only {sorted(streams)}; name files for it: nothing can be "
                "taken out of streamed data"
            )
    refuse_other_classes({name: stream.features for name, stream in streams.items()}, columns)
    return streams


def stored(
    streams: Mapping[str, IterableDataset], columns: Sequence[Column], source: str
) -> tuple[DatasetDict, list[str]]:
    """Returns all splits but `train`, read to their ends and memory-mapped, and notices of bad rows."""
    stats = {name: SplitStats() for name in streams if name != "train"}
    splits = {
        name: _on_disk(name, streams[name], streams[name], columns, source, stats[name]) for name in stats
    }
    return DatasetDict(splits), [notice for name in stats for notice in stats[name].notices(name)]


def first_examples(train: IterableDataset, count: int, columns: Sequence[Column], source: str) -> Dataset:
    """Returns about `count` examples, memory-mapped, as many from each shard, because files differ."""
    shards = train.num_shards
    parts = [train.shard(shards, number) for number in range(shards)] if shards > 1 else [train]
    rows = chain.from_iterable(islice(part, -(-count // shards)) for part in parts)
    return _on_disk("train", rows, train, columns, source, SplitStats())


@dataclass(frozen=True)
class StreamedExamples:
    """The training examples of a task, read when they are needed.

    `stream` has them as text, `buffer` is the number of rows of a block.
    """

    stream: IterableDataset
    task: Task
    processor: Processor
    architecture: Architecture
    buffer: int

    def share(self, number: int, count: int) -> IterableDataset:
        """Returns one of `count` disjoint parts of the stream, which together are all of it.

        Each has its own shards if there are enough; otherwise it has every `count`-th example.
        """
        if self.stream.num_shards >= count:
            return self.stream.shard(count, number)
        return split_dataset_by_node(self.stream, number, count)

    def encode(self, rows: list[Row]) -> tuple[EncodedSplit, SplitStats]:
        """Returns rows without faults as examples, less those that are dropped for their length.

        Raises:
            DataError: An example is too long and the task refuses it.
            RegistryError: A row lacks a column.
        """
        features = _features(self.stream, self.processor.task_type.columns)
        examples = [_values(row, features, "train", self.task.data.name) for row in rows]

        def place(row: int) -> str:
            beginning = as_text(next(iter(examples[row].values())))[:40]
            return str(rows[row].get("place") or f"train, an example that begins with {beginning!r}")

        table = Dataset.from_list(examples, features).data.table
        data = Dataset(with_numbers(table, features, self.processor, place))
        return limited(data, self.task, self.processor, self.architecture, place)


@dataclass
class StreamPosition:
    """A position in one share of the stream.

    Attributes:
        reader: The state of the stream where the block begins; None at the beginning of a pass.
        passes: Number of the pass, counted from 0.
        block: Number of the block in the pass.
        batch: Number of the next batch in the block.
        first: Examples of the pass before the block.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    reader: dict[str, Any] | None = None
    passes: Natural = 0
    block: Natural = 0
    batch: Natural = 0
    first: Natural = 0


class BlockReader:
    """Makes batches of one share of the stream, pass after pass; the next block is read in the background.

    Args:
        examples: The stream.
        number: Of the share.
        count: Number of shares.
        position: Of the first batch.
        order: Makes batches of a block.
        seed: Of the random parts of examples.
        background: Reads blocks.

    Attributes:
        position: Of the next batch.
        stats: Of the blocks that were read so far.
    """

    def __init__(
        self,
        examples: StreamedExamples,
        number: int,
        count: int,
        *,
        position: StreamPosition,
        order: Order,
        seed: int,
        background: Executor,
    ) -> None:
        self.position = position
        self.stats = SplitStats()
        self._number = number
        self._count = count
        self._order = order
        self._seed = seed
        self._background = background
        self._blocks = _blocks(examples, number, count, replace(position, batch=0))
        self._next = background.submit(next, self._blocks)
        self._recent: deque[tuple[int, EncodedSplit]] = deque(maxlen=2)  # batches are prepared ahead
        self._batches: list[Rows] = []
        if position.batch:
            self._open_block(position.batch)

    def next(self) -> Batch:
        """Returns the next batch; its rows are numbered through the pass and all shares.

        Raises:
            DataError: A row is malformed, or no example can be used.
        """
        if self.position.batch == len(self._batches):
            self._open_block(batch=0)
        rows = self._batches[self.position.batch]
        self.position.batch += 1
        first, examples = self._recent[-1]
        epoch = (self._seed, self._number, self.position.passes, self.position.block)
        numbers = [(first + row) * self._count + self._number for row in rows]
        return replace(examples.batch(rows, epoch=epoch), rows=numbers)

    def _open_block(self, batch: int) -> None:
        position, examples, stats = self._next.result()
        self._next = self._background.submit(next, self._blocks)
        seed = np.random.SeedSequence([self._number, position.passes, position.block])
        self.position = replace(position, batch=batch)
        self.stats += stats
        self._recent.append((position.first, examples))
        self._batches = self._order(examples.lengths)(int(seed.generate_state(1, np.uint64)[0]))


def _blocks(
    examples: StreamedExamples, number: int, count: int, position: StreamPosition
) -> Iterator[tuple[StreamPosition, EncodedSplit, SplitStats]]:
    """Yields the blocks of a share, pass after pass, each with the stats of all rows since the block before.

    Raises:
        DataError: A row is malformed, or no example of a whole pass can be used.
    """
    stats = SplitStats()
    while True:
        stream = examples.share(number, count)
        if position.reader is not None:
            stream.load_state_dict(position.reader)
        remaining = iter(stream)
        while rows := list(islice(remaining, examples.buffer)):
            beginning = position
            position = replace(beginning, reader=stream.state_dict(), block=beginning.block + 1)
            if not (sound := list(stats.sound(rows))):
                continue
            block, lengths = examples.encode(sound)
            stats += lengths
            if len(block):
                position.first += len(block)
                yield beginning, block, stats
                stats = SplitStats()
        if position.first == 0:
            share = f", share {number + 1} of {count}" if count > 1 else ""
            faults = "".join(f"\n  {fault}" for fault in stats.faults)
            raise DataError(
                f"train{share}: none of its {stats.rows:,} rows can be used ({stats}); check the files, "
                "raise model.max_length or data.length.max, or, if there are fewer examples than shares, "
                f"lower training.batches_per_update{faults}"
            )
        position = StreamPosition(passes=position.passes + 1)


def _on_disk(
    name: str,
    rows: Iterable[Row],
    stream: IterableDataset,
    columns: Sequence[Column],
    source: str,
    stats: SplitStats,
) -> Dataset:
    features = _features(stream, columns)
    examples = (_values(row, features, name, source) for row in stats.sound(rows))
    data = on_disk((tuple(example.values()) for example in examples), features)
    stats.rows += len(data)
    if len(data) == 0:
        faults = "".join(f"\n  {fault}" for fault in stats.faults)
        raise DataError(
            f"data {source!r}: split {name!r} has no examples of {stats.rows} rows; check its files{faults}"
        )
    return data


def _values(row: Row, names: Iterable[str], split: str, source: str) -> Row:
    """Returns the columns of a row that the task reads, none of which may be missing."""
    if missing := [name for name in names if name not in row]:
        raise RegistryError(
            f"data {source!r} gave an example of split {split!r} without the column {missing[0]!r}, only "
            f"{sorted(row)}; the task needs {list(names)}"
        )
    return {name: row[name] for name in names}


def _features(stream: IterableDataset, columns: Sequence[Column]) -> Features:
    """Returns the types of the columns that a task reads; text if the stream declares none."""
    given = stream.features or {}
    return Features(
        {
            column.name: given.get(column.name, Value("string"))
            for column in columns
            if column.name in given or not column.optional
        }
    )
