"""From a task to examples ready for a model: read, split, tokenized, limited in length."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import datasets
from datasets import ClassLabel, Dataset, DatasetDict, IterableDataset

from plugformer.configuration.task import Streaming, Task
from plugformer.data.cache_key import cache_key, data_version
from plugformer.data.encoding import EncodedSplit
from plugformer.data.fingerprints import fingerprint
from plugformer.data.length import LengthCount, limited
from plugformer.data.prepared_entry import PreparedEntry, remove
from plugformer.data.splitting import split
from plugformer.data.streaming import StreamedExamples, first_examples, open_streams, stored
from plugformer.data.tokenizing import (
    Tokenizers,
    create_tokenizers,
    learn_tokenizers,
    load_tokenizers,
    save_tokenizers,
    tokenizers_of_run,
)
from plugformer.errors import DataError, RegistryError, RunError
from plugformer.interfaces.data import Data, TaskType
from plugformer.interfaces.tokenizer import Tokenizer
from plugformer.kinds import Kind
from plugformer.registry import Registry


@dataclass(frozen=True)
class PreparedData:
    """A task's examples as a model reads them.

    Attributes:
        splits: `train`, `validation` and the tests, by name; without `train` if that is streamed.
        source_tokenizer: Of the input.
        target_tokenizer: Of the output; the same object as of the input where it is shared, or where the
            output is a label.
        labels: Names of the classes; none for sequences.
        lengths: What the length limit did to each split; for people to read.
        hashes: A hash of the content of each split before it was tokenized; of one that is streamed, of the
            version of the data.
        notices: What people should know about the preparation.
        streamed: The training examples, if they are streamed.
    """

    splits: dict[str, EncodedSplit]
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    labels: tuple[str, ...]
    lengths: dict[str, LengthCount]
    hashes: dict[str, str]
    notices: tuple[str, ...] = ()
    streamed: StreamedExamples | None = None


def prepare(task: Task, registry: Registry, tokenizers: Tokenizers | None = None) -> PreparedData:
    """Reads a task's data, trains tokenizers on its training examples unless some are given, and encodes all.

    All that is done once: prepared examples are kept in the cache and taken from there as long as data,
    options and code stay the same. Length limits apply afterwards.

    Args:
        task: Fully resolved.
        registry: Knows the data and tokenizer components.
        tokenizers: Of source and target, trained; if None, those of the run that the task names, or else
            to be learned.

    Raises:
        ConfigurationError: An option of the data or the tokenizers is wrong.
        DataError: The data cannot be read, or an example is too long and the task refuses it.
        RegistryError: A component is unknown, or does not give what its interface promises.
    """
    data: Data = registry.create(Kind.DATA, task.data.name, **task.data.options)
    streaming = task.data.streaming
    tokenizers = tokenizers or tokenizers_of_run(task, registry)
    with quiet():
        version = partial(data_version, data, task.data, registry)
        streams = {} if streaming is None else open_streams(data, task)
        read = partial(_read, data, task) if streaming is None else partial(_read_streams, streams, task)
        entry, trained, notices = _entry(task, registry, tokenizers, version, read)
        splits, lengths = {}, {}
        for name, examples in entry.splits.items():
            splits[name], lengths[name] = _limited(name, examples, task)
    prepared = PreparedData(
        splits,
        *trained,
        labels=_class_names(entry.splits["validation"]),
        lengths=lengths,
        hashes=entry.hashes,
        notices=(*notices, *entry.notices),
    )
    if streaming is None:
        return prepared
    streamed = StreamedExamples(streams["train"], task, trained, streaming.buffer)
    return replace(prepared, streamed=streamed, hashes={**entry.hashes, "train": version()})


class _Texts(NamedTuple):
    """Examples as text.

    Attributes:
        splits: What is to be prepared.
        train: Returns what tokenizers learn from.
        notices: What people should know about them.
    """

    splits: DatasetDict
    train: Callable[[], Dataset]
    notices: Sequence[str]


def _entry(
    task: Task,
    registry: Registry,
    given: Tokenizers | None,
    version: Callable[[], str],
    read: Callable[[], _Texts],
) -> tuple[PreparedEntry, Tokenizers, list[str]]:
    """Returns the prepared examples, made if they are not stored, their tokenizers, and notices of damage."""
    before = version()
    key = cache_key(task, registry, before)
    learned = None if given is None else _learned(given)
    keys = [key] if learned is None else [key, fingerprint(key, *learned.values())]
    notices: list[str] = []
    for each in keys:
        try:
            entry = PreparedEntry.find(each)
            if entry is not None and learned in (None, entry.learned):
                return entry, given or load_tokenizers(create_tokenizers(task, registry), entry.folder), []
        except (DataError, RunError) as error:
            notices.append(str(error))
            remove(each)
    texts = read()
    if version() != before:
        raise DataError(
            f"data {task.data.name!r} changed while they were read; start again when they are complete"
        )
    tokenizers = given or learn_tokenizers(task, registry, texts.train())
    entry = PreparedEntry.make(keys[-1], texts.splits, TaskType(task.type), tokenizers, texts.notices)
    return entry, tokenizers, notices


def _learned(tokenizers: Tokenizers) -> dict[str, str]:
    with TemporaryDirectory() as folder:
        return save_tokenizers(tokenizers, Path(folder))


def _class_names(data: Dataset) -> tuple[str, ...]:
    label = data.features.get("label")
    return () if label is None else tuple(label.names)


def _read_streams(streams: Mapping[str, IterableDataset], task: Task) -> _Texts:
    """Returns all that is not streamed of a task's examples, and the first ones of those that are."""
    streaming = task.data.streaming or Streaming()
    splits, notices = stored(streams, task)
    first = partial(first_examples, streams["train"], streaming.tokenizer_examples, task)
    return _Texts(splits, first, notices)


def _read(component: Data, task: Task) -> _Texts:
    """Returns a task's examples as text, split as the task says.

    Raises:
        DataError: The data cannot be read, or a split is missing or empty.
        RegistryError: The component does not give the columns or classes that the task's type has.
    """
    task_type = TaskType(task.type)
    examples = component.load(task_type)
    for name, data in examples.items():
        if len(data) == 0:
            raise DataError(f"data {task.data.name!r}: split {name!r} has no examples; check its files")
        if missing := sorted(set(task_type.columns) - set(data.column_names)):
            raise RegistryError(
                f"data {task.data.name!r} gave split {name!r} without the columns {missing}, only "
                f"{sorted(data.column_names)}; a {task_type} task needs {list(task_type.columns)}"
            )
    splits = split(examples, task.data.split, task_type)
    if task_type is TaskType.CLASSIFICATION:
        _refuse_other_classes(splits)
    return _Texts(splits, lambda: splits["train"], component.notices())


def _limited(name: str, data: Dataset, task: Task) -> tuple[EncodedSplit, LengthCount]:
    """Applies the task's length limit to a split."""
    split, count = limited(data, task, lambda row: f"{name}, example {row + 1}")
    if len(split) == 0:
        raise DataError(
            f"{name}: all of its {len(data)} examples are longer than the limit, the longest side has "
            f"{count.longest} tokens; raise model.max_length or data.length.max"
        )
    return split, count


def _refuse_other_classes(examples: DatasetDict) -> None:
    """Refuses labels that are not classes, or not those of the training examples."""
    expected = examples["train"].features["label"]
    for name, data in examples.items():
        found = data.features["label"]
        if not isinstance(found, ClassLabel) or found != expected:
            raise RegistryError(
                f"split {name!r} has labels {found}, expected the classes of split 'train': {expected}; "
                "the data component must give a ClassLabel"
            )


@contextmanager
def quiet() -> Iterator[None]:
    """Silences the progress bars of `datasets` inside, as its own setting does."""
    shown = datasets.are_progress_bars_disabled() is False
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            datasets.enable_progress_bars()
