"""Training examples that are read while training, what was left out of them, and what is prepared beside."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain, islice
from typing import Annotated, Any

from datasets import ClassLabel, Dataset, DatasetDict, Features, IterableDataset, Value
from datasets.distributed import split_dataset_by_node
from pydantic import ConfigDict, Field

from plugformer.configuration.task import DataBlock
from plugformer.data.arrow import on_disk
from plugformer.data.encoding import EncodedSplit
from plugformer.data.length import LengthCount, limited
from plugformer.data.splitting import refuse_other_classes
from plugformer.data.vocabularies import Vocabularies, encode
from plugformer.errors import DataError, ExampleError, RegistryError
from plugformer.interfaces import Architecture, Column
from plugformer.interfaces.data import Data

Row = dict[str, Any]

Natural = Annotated[int, Field(ge=0)]

SHOWN = 3
"""Faults that are told in full."""

FEW = 0.03
"""The share of rows up to which bad ones are taken for accidents."""


@dataclass
class ReadCount:
    """What was read so far; an example counts again at every pass.

    Attributes:
        rows: Number of rows.
        bad: Number of those left out because of a fault.
        faults: The first faults.
        dropped: Number of examples left out because of their length.
        truncated: Number of those shortened.
        longest: Tokens of the longest side before, special tokens not counted.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    rows: Natural = 0
    bad: Natural = 0
    faults: list[str] = field(default_factory=list)
    dropped: Natural = 0
    truncated: Natural = 0
    longest: Natural = 0

    def sound(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yields the rows that have no fault, and counts all."""
        for row in rows:
            self.rows += 1
            if fault := row.get("fault"):
                self.leave_out(fault)
            else:
                yield row

    def leave_out(self, fault: str, rows: int = 1) -> None:
        """Counts rows that have a fault."""
        self.bad += rows
        self.faults = [*self.faults, fault][:SHOWN]

    def limited(self, count: LengthCount) -> None:
        """Counts what the length limit did to some of them."""
        self.dropped += count.dropped
        self.truncated += count.truncated
        self.longest = max(self.longest, count.longest)

    def __add__(self, other: "ReadCount") -> "ReadCount":
        return ReadCount(
            self.rows + other.rows,
            self.bad + other.bad,
            [*self.faults, *other.faults][:SHOWN],
            self.dropped + other.dropped,
            self.truncated + other.truncated,
            max(self.longest, other.longest),
        )

    def notices(self, split: str) -> list[str]:
        """Returns notices about bad rows."""
        if not self.bad:
            return []
        few = self.bad <= FEW * self.rows
        said = f"{split}: bad rows skipped: {self.bad:,} of {self.rows:,} ({self.bad / self.rows:.1%})"
        first = f"{said}; the first:" if few else f"WARNING: {said}: do the options of data fit? The first:"
        return ["\n  ".join([first, *self.faults])]

    def __str__(self) -> str:
        examples = LengthCount(self.rows - self.bad, self.dropped, self.truncated, self.longest)
        return str(examples)


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
                f"the data have no split {name!r}, only {sorted(streams)}; name files for it: of what is "
                "streamed nothing can be taken out"
            )
    refuse_other_classes({name: stream.features for name, stream in streams.items()}, columns)
    return streams


def stored(
    streams: Mapping[str, IterableDataset], columns: Sequence[Column], source: str
) -> tuple[DatasetDict, list[str]]:
    """Returns all splits but `train`, read to their ends and memory-mapped, and notices of bad rows."""
    counts = {name: ReadCount() for name in streams if name != "train"}
    splits = {
        name: _on_disk(name, streams[name], streams[name], columns, source, counts[name]) for name in counts
    }
    notices = chain.from_iterable(count.notices(name) for name, count in counts.items())
    return DatasetDict(splits), list(notices)


def first_examples(train: IterableDataset, count: int, columns: Sequence[Column], source: str) -> Dataset:
    """Returns the first examples of all shards alike, memory-mapped: what tokenizers learn from.

    Files often hold a domain or a language each; the first of them alone would mislead.

    Args:
        train: The stream.
        count: Number of examples; a few more where it is no multiple of the shards.
        columns: Of the task's type.
        source: Name of the data component.
    """
    shards = train.num_shards
    parts = [train.shard(shards, number) for number in range(shards)] if shards > 1 else [train]
    rows = chain.from_iterable(islice(part, -(-count // shards)) for part in parts)
    return _on_disk("train", rows, train, columns, source, ReadCount())


@dataclass(frozen=True)
class StreamedExamples:
    """The training examples of a task, read as they are asked for.

    Attributes:
        stream: The examples as text.
        block: Says how long they may be.
        max_length: Longest sequence that the model takes.
        vocabularies: Of the task.
        architecture: Arranges examples.
        buffer: Rows of each share that are read at a time.
    """

    stream: IterableDataset
    block: DataBlock
    max_length: int
    vocabularies: Vocabularies
    architecture: Architecture
    buffer: int

    def share(self, number: int, count: int) -> IterableDataset:
        """Returns one of `count` disjoint parts of the stream, which together are all of it.

        Each has shards of its own where there are enough; else it has every `count`-th example.
        """
        if self.stream.num_shards >= count:
            return self.stream.shard(count, number)
        return split_dataset_by_node(self.stream, number, count)

    def encode(self, rows: list[Row], count: ReadCount) -> EncodedSplit:
        """Returns sound rows as examples, without those that are dropped for their length.

        Args:
            rows: At least one.
            count: Counts what the length limit does.

        Raises:
            DataError: An example is too long and the task refuses it.
        """
        task_type = self.vocabularies.task_type
        features = _features(self.stream, task_type.columns)
        columns = {name: [row[name] for row in rows] for name in features}
        data = Dataset.from_dict(columns, Features(features))
        named = {
            name: [feature.names[each] for each in columns[name]]
            if isinstance(feature, ClassLabel)
            else columns[name]
            for name, feature in features.items()
        }

        def place(row: int) -> str:
            return str(rows[row].get("place") or _shown(rows[row]))

        try:
            encoded = encode(named, self.vocabularies)
        except ExampleError as error:
            raise DataError(f"{place(error.row)}: {error}") from error
        table = data.data.table
        for name, array in encoded.items():
            table = table.append_column(name, array)
        split, lengths = limited(
            Dataset(table), self.block, self.max_length, self.vocabularies, self.architecture, place
        )
        count.limited(lengths)
        return split

    def hash(self, rows: list[Row]) -> str:
        """Returns a hash of what rows say, by which other rows at the same place are noticed."""
        digest = blake2b(digest_size=16)
        for row in rows:
            for column in self.vocabularies.task_type.columns:
                if not column.optional:
                    digest.update(f"{row[column.name]}\0".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def _on_disk(
    name: str,
    rows: Iterable[Row],
    stream: IterableDataset,
    columns: Sequence[Column],
    source: str,
    count: ReadCount,
) -> Dataset:
    features = _features(stream, columns)
    try:
        values = (tuple(row[column] for column in features) for row in count.sound(rows))
        data = on_disk(values, Features(features))
    except KeyError as error:
        raise RegistryError(
            f"data {source!r} gave an example of split {name!r} without the column {error}; the "
            f"task needs {[column.name for column in columns if not column.optional]}"
        ) from error
    if len(data) == 0:
        faults = "".join(f"\n  {fault}" for fault in count.faults)
        raise DataError(
            f"data {source!r}: split {name!r} has no examples of {count.rows} rows; check its files{faults}"
        )
    return data


def _features(stream: IterableDataset, columns: Sequence[Column]) -> dict[str, object]:
    """Returns the types of the columns that a task reads; text where the stream does not say."""
    given = stream.features or {}
    return {
        column.name: given.get(column.name, Value("string"))
        for column in columns
        if column.name in given or not column.optional
    }


def _shown(row: Row) -> str:
    return f"train, an example that begins with {next(iter(row.values()))[:40]!r}"
