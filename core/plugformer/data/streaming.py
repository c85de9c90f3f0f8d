"""Examples that are read during the training: `train` in blocks, the other splits before, to their ends."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from datasets import Dataset, DatasetDict, Features, IterableDataset, Value
from datasets.distributed import split_dataset_by_node

from plugformer.data.arrow import TextSplits, limited, on_disk
from plugformer.data.encoding import EncodedSplit
from plugformer.data.files import SplitStats
from plugformer.data.processor import Processor
from plugformer.data.splitting import refuse_other_classes
from plugformer.errors import DataError
from plugformer.experiment import Experiment
from plugformer.interfaces import Column, as_text

Row = dict[str, Any]
Streams = Mapping[str, IterableDataset]


def open_streams(experiment: Experiment) -> Streams:
    """Returns the splits of a task that streams, unread.

    Raises:
        DataError: There is no train or validation split, or a file is missing.
        RegistryError: The component gives no classes, or not the same for all splits.
    """
    columns = experiment.columns
    streams = dict(experiment.data.stream(columns))
    for name in ("train", "validation"):
        if name not in streams:
            raise DataError(
                f"the data have no split {name!r}, only {sorted(streams)}; name files for it: nothing can be "
                "taken out of streamed data"
            )
    refuse_other_classes({name: stream.features for name, stream in streams.items()}, columns)
    return streams


def stored(streams: Streams, experiment: Experiment, first: int) -> TextSplits:
    """Reads all splits but `train` to their ends.

    Tokenizers learn from the `first` training examples, as many from each shard, because files differ.
    """
    columns, train = experiment.task_type.columns, streams["train"]
    notices: list[str] = []

    def read(name: str, rows: Iterable[Row]) -> Dataset:
        stats, features = SplitStats(), _features(streams[name], columns)
        data = on_disk(([row[column] for column in features] for row in _sound(rows, stats)), features)
        if len(data) == 0:
            raise DataError("\n  ".join([f"split {name!r} has no examples; check its files", *stats.faults]))
        stats.rows += len(data)
        if name != "train":
            notices.extend(stats.notices(name))
        return data

    def first_examples() -> Dataset:
        shards = train.num_shards
        count = -(-first // shards)  # rounded up
        parts = [train.shard(shards, number) for number in range(shards)] if shards > 1 else [train]
        return read("train", chain.from_iterable(islice(part, count) for part in parts))

    splits = DatasetDict({name: read(name, streams[name]) for name in streams if name != "train"})
    return splits, first_examples, notices


@dataclass(frozen=True)
class StreamedExamples:
    """The training examples of a task, read when they are needed.

    `stream` has them as text, `buffer` is the number of rows of a block, and `sample` has as many examples of
    the validation split, some of them several times.
    """

    stream: IterableDataset
    experiment: Experiment
    processor: Processor
    buffer: int
    sample: EncodedSplit

    def share(self, number: int, count: int) -> IterableDataset:
        """Returns one of `count` disjoint parts of the stream, which together are all of it.

        Each has its own shards if there are enough; otherwise it has every `count`-th example.
        """
        if self.stream.num_shards >= count:
            return self.stream.shard(count, number)
        return split_dataset_by_node(self.stream, number, count)

    def encode(self, rows: list[Row], stats: SplitStats) -> EncodedSplit | None:
        """Returns the examples of rows, less those with a fault or dropped for their length, or None.

        All are counted in `stats`.

        Raises:
            DataError: An example is too long and the task refuses it.
        """
        sound = list(_sound(rows, stats))
        if not sound:
            return None
        features = _features(self.stream, self.processor.task_type.columns)
        names = {name: getattr(feature, "int2str", None) for name, feature in features.items()}
        examples = [
            {name: row[name] if named is None else named(row[name]) for name, named in names.items()}
            for row in sound
        ]

        def place(row: int) -> str:
            beginning = as_text(next(iter(examples[row].values())))[:40]
            return str(sound[row].get("place") or f"train, an example that begins with {beginning!r}")

        columns: dict[str, list[Any]] = {name: [row[name] for row in examples] for name in features}
        encoded = self.processor.encode_examples(columns, place)
        split, lengths = limited(examples, encoded, self.experiment, self.processor, place, training=True)
        stats.add(lengths)
        return split if len(split) else None


def _sound(rows: Iterable[Row], stats: SplitStats) -> Iterator[Row]:
    """Yields the rows that have no fault, and counts the others."""
    for row in rows:
        if fault := row.get("fault"):
            stats.rows += 1
            stats.leave_out(fault)
        else:
            yield row


def _features(stream: IterableDataset, columns: Iterable[Column]) -> Features:
    """Returns the types of the columns that a task reads; text if the stream declares none."""
    given = stream.features or {}
    names = [column.name for column in columns if column.name in given or not column.optional]
    return Features({name: given.get(name, Value("string")) for name in names})
