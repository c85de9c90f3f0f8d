"""Training examples that are read while training, and what is prepared beside them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain, islice

import pyarrow as pa
from datasets import ClassLabel, Dataset, DatasetDict, Features, IterableDataset, Value
from datasets.distributed import split_dataset_by_node

from plugformer.configuration.task import Task
from plugformer.data.arrow_files import on_disk
from plugformer.data.encoding import SPECIALS, TOKENS, EncodedSplit
from plugformer.data.length import limited
from plugformer.data.read_count import ReadCount, Row
from plugformer.data.tokenizing import Tokenizers
from plugformer.errors import DataError, RegistryError
from plugformer.interfaces.data import Data, TaskType


def open_streams(component: Data, task: Task) -> dict[str, IterableDataset]:
    """Returns the splits of a task, unread.

    Raises:
        DataError: There is no train or validation split, or a file is missing.
        RegistryError: The component gives no classes, or not the same for all splits.
    """
    streams = dict(component.stream(TaskType(task.type)))
    for name in ("train", "validation"):
        if name not in streams:
            raise DataError(
                f"the data have no split {name!r}, only {sorted(streams)}; name files for it: of what is "
                "streamed nothing can be taken out"
            )
    if TaskType(task.type) is TaskType.CLASSIFICATION:
        _refuse_other_classes(streams)
    return streams


def stored(streams: Mapping[str, IterableDataset], task: Task) -> tuple[DatasetDict, list[str]]:
    """Returns all splits but `train`, read to their ends and memory-mapped, and notices of bad rows."""
    counts = {name: ReadCount() for name in streams if name != "train"}
    splits = {name: _on_disk(name, streams[name], streams[name], task, counts[name]) for name in counts}
    notices = chain.from_iterable(count.notices(name) for name, count in counts.items())
    return DatasetDict(splits), list(notices)


def first_examples(train: IterableDataset, count: int, task: Task) -> Dataset:
    """Returns the first examples of all shards alike, memory-mapped: what tokenizers learn from.

    Files often hold a domain or a language each; the first of them alone would mislead.

    Args:
        train: The stream.
        count: Number of examples; a few more where it is no multiple of the shards.
        task: Names the columns.
    """
    shards = train.num_shards
    parts = [train.shard(shards, number) for number in range(shards)] if shards > 1 else [train]
    rows = chain.from_iterable(islice(part, -(-count // shards)) for part in parts)
    return _on_disk("train", rows, train, task, ReadCount())


@dataclass(frozen=True)
class StreamedExamples:
    """The training examples of a task, read as they are asked for.

    Attributes:
        stream: The examples as text.
        task: Says how long they may be.
        tokenizers: Of source and target.
        buffer: Rows of each share that are read at a time.
    """

    stream: IterableDataset
    task: Task
    tokenizers: Tokenizers
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
        task_type = TaskType(self.task.type)
        features = _features(self.stream, task_type)
        columns = {name: [row[name] for row in rows] for name in task_type.columns}
        for name, tokenizer in zip(task_type.columns, self.tokenizers, strict=True):
            if name in SPECIALS:
                numbers = tokenizer.encode(columns[name])
                columns[f"{name}_tokens"] = pa.array(numbers, pa.list_(pa.int32()))  # Arrow's own is faster
                features[f"{name}_tokens"] = TOKENS
        data = Dataset.from_dict(columns, Features(features))
        split, lengths = limited(
            data, self.task, lambda row: str(rows[row].get("place") or _shown(rows[row]))
        )
        count.limited(lengths)
        return split

    def hash(self, rows: list[Row]) -> str:
        """Returns a hash of what rows say, by which other rows at the same place are noticed."""
        digest = blake2b(digest_size=16)
        for row in rows:
            for name in TaskType(self.task.type).columns:
                digest.update(f"{row[name]}\0".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def _on_disk(
    name: str, rows: Iterable[Row], stream: IterableDataset, task: Task, count: ReadCount
) -> Dataset:
    features = _features(stream, TaskType(task.type))
    try:
        values = (tuple(row[column] for column in features) for row in count.sound(rows))
        data = on_disk(values, Features(features))
    except KeyError as error:
        raise RegistryError(
            f"data {task.data.name!r} gave an example of split {name!r} without the column {error}; a "
            f"{task.type} task needs {list(TaskType(task.type).columns)}"
        ) from error
    if len(data) == 0:
        faults = "".join(f"\n  {fault}" for fault in count.faults)
        raise DataError(
            f"data {task.data.name!r}: split {name!r} has no examples of {count.rows} rows; check its files"
            f"{faults}"
        )
    return data


def _features(stream: IterableDataset, task_type: TaskType) -> dict[str, object]:
    """Returns the types of the columns that a task reads; text where the stream does not say."""
    given = stream.features or {}
    columns = {name: given.get(name, Value("string")) for name in task_type.columns}
    return columns | {name: given[name] for name in ("references",) if name in given}


def _refuse_other_classes(streams: Mapping[str, IterableDataset]) -> None:
    expected = (streams["train"].features or {}).get("label")
    for name, stream in streams.items():
        found = (stream.features or {}).get("label")
        if not isinstance(found, ClassLabel) or found != expected:
            raise RegistryError(
                f"split {name!r} has labels {found}, expected the classes of split 'train': {expected}; "
                "the data component must give a ClassLabel"
            )


def _shown(row: Row) -> str:
    return f"train, an example that begins with {next(iter(row.values()))[:40]!r}"
