"""Training examples that are read while training, what was left out of them, and what is prepared beside."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain, islice

from datasets import Dataset, DatasetDict, Features, IterableDataset, Value
from datasets.distributed import split_dataset_by_node

from plugformer.configuration.task import Task
from plugformer.data.arrow import on_disk
from plugformer.data.encoding import EncodedSplit
from plugformer.data.length import limited
from plugformer.data.numbering import with_numbers
from plugformer.data.read_count import ReadCount, Row
from plugformer.data.splitting import refuse_other_classes
from plugformer.data.vocabularies import Vocabularies
from plugformer.errors import DataError, RegistryError
from plugformer.interfaces import Architecture, Column, as_text
from plugformer.interfaces.data import Data


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
        task: Says how long they may be.
        vocabularies: Of the task.
        architecture: Arranges examples.
        buffer: Rows of each share that are read at a time.
    """

    stream: IterableDataset
    task: Task
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

    def encode(self, rows: list[Row]) -> tuple[EncodedSplit, ReadCount]:
        """Returns sound rows as examples, without those that are dropped for their length, and a count.

        Args:
            rows: At least one.

        Raises:
            DataError: An example is too long and the task refuses it.
            RegistryError: A row has not all columns.
        """
        features = Features(_features(self.stream, self.vocabularies.task_type.columns))
        examples = [_values(row, features, "train", self.task.data.name) for row in rows]
        data = Dataset.from_list(examples, features)

        def place(row: int) -> str:
            beginning = as_text(next(iter(examples[row].values())))[:40]
            return str(rows[row].get("place") or f"train, an example that begins with {beginning!r}")

        table = with_numbers(data.data.table, features, self.vocabularies, place)
        return limited(Dataset(table), self.task, self.vocabularies, self.architecture, place)

    def hash(self, rows: list[Row]) -> str:
        """Returns a hash of what rows say, by which other rows at the same place are noticed.

        Args:
            rows: Of those with a fault, there may be nothing but that.
        """
        digest = blake2b(digest_size=16)
        for row in rows:
            for column in self.vocabularies.task_type.columns:
                if not column.optional:
                    digest.update(f"{row.get(column.name)}\0".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def _on_disk(
    name: str,
    rows: Iterable[Row],
    stream: IterableDataset,
    columns: Sequence[Column],
    source: str,
    count: ReadCount,
) -> Dataset:
    features = Features(_features(stream, columns))
    examples = (_values(row, features, name, source) for row in count.sound(rows))
    data = on_disk((tuple(each.values()) for each in examples), features)
    count.rows += len(data)
    if len(data) == 0:
        faults = "".join(f"\n  {fault}" for fault in count.faults)
        raise DataError(
            f"data {source!r}: split {name!r} has no examples of {count.rows} rows; check its files{faults}"
        )
    return data


def _values(row: Row, names: Iterable[str], split: str, source: str) -> Row:
    """Returns what a row of a data component has in some columns, none of which may be missing."""
    if missing := [name for name in names if name not in row]:
        raise RegistryError(
            f"data {source!r} gave an example of split {split!r} without the column {missing[0]!r}, only "
            f"{sorted(row)}; the task needs {list(names)}"
        )
    return {name: row[name] for name in names}


def _features(stream: IterableDataset, columns: Sequence[Column]) -> dict[str, object]:
    """Returns the types of the columns that a task reads; text where the stream does not say."""
    given = stream.features or {}
    return {
        column.name: given.get(column.name, Value("string"))
        for column in columns
        if column.name in given or not column.optional
    }
