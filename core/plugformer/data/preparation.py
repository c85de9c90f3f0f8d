"""From a task to examples ready for a model: read, split, tokenized, limited in length."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import datasets
from datasets import ClassLabel, Dataset, DatasetDict

from plugformer.configuration.task import Task
from plugformer.data.cache_key import cache_key, data_version
from plugformer.data.encoding import SPECIALS, EncodedSplit, token_columns
from plugformer.data.fingerprints import fingerprint
from plugformer.data.length import LengthCount, limit
from plugformer.data.prepared_entry import PreparedEntry, remove
from plugformer.data.splitting import split
from plugformer.data.tokenizing import (
    Tokenizers,
    create_tokenizers,
    learn_tokenizers,
    load_tokenizers,
    save_tokenizers,
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
        splits: `train`, `validation` and the tests, by name.
        source_tokenizer: Of the input.
        target_tokenizer: Of the output; the same object as of the input where it is shared, or where the
            output is a label.
        labels: Names of the classes; none for sequences.
        lengths: What the length limit did to each split; for people to read.
        hashes: A hash of the content of each split before it was tokenized.
        notices: What people should know about the preparation.
    """

    splits: dict[str, EncodedSplit]
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    labels: tuple[str, ...]
    lengths: dict[str, LengthCount]
    hashes: dict[str, str]
    notices: tuple[str, ...] = ()


def prepare(task: Task, registry: Registry, tokenizers: Tokenizers | None = None) -> PreparedData:
    """Reads a task's data, trains tokenizers on its training examples unless some are given, and encodes all.

    All that is done once: prepared examples are kept in the cache and taken from there as long as data,
    options and code stay the same. Length limits apply afterwards.

    Args:
        task: Fully resolved.
        registry: Knows the data and tokenizer components.
        tokenizers: Of source and target, trained; to be learned if None.

    Raises:
        ConfigurationError: An option of the data or the tokenizers is wrong.
        DataError: The data cannot be read, or an example is too long and the task refuses it.
        RegistryError: A component is unknown, or does not give what its interface promises.
    """
    with _quiet():
        entry, (source, target), notices = _entry(task, registry, tokenizers)
        splits, lengths = {}, {}
        for name, data in entry.splits.items():
            splits[name], lengths[name] = _limited(name, data, task)
    labels = entry.splits["train"].features.get("label")
    names = () if labels is None else tuple(labels.names)
    return PreparedData(splits, source, target, names, lengths, entry.hashes, (*notices, *entry.notices))


def _entry(
    task: Task, registry: Registry, given: Tokenizers | None
) -> tuple[PreparedEntry, Tokenizers, list[str]]:
    """Returns the prepared examples, made if they are not stored, their tokenizers, and notices of damage."""
    data: Data = registry.create(Kind.DATA, task.data.name, **task.data.options)
    version = data_version(data, task.data, registry)
    key = cache_key(task, registry, version)
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
    examples = _read(data, task)
    if data_version(data, task.data, registry) != version:
        raise DataError(
            f"data {task.data.name!r} changed while they were read; start again when they are complete"
        )
    tokenizers = given or learn_tokenizers(task, registry, examples["train"])
    entry = PreparedEntry.make(keys[-1], examples, TaskType(task.type), tokenizers, data.notices())
    return entry, tokenizers, notices


def _learned(tokenizers: Tokenizers) -> dict[str, str]:
    with TemporaryDirectory() as folder:
        return save_tokenizers(tokenizers, Path(folder))


def _read(component: Data, task: Task) -> DatasetDict:
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
    return splits


def _limited(name: str, data: Dataset, task: Task) -> tuple[EncodedSplit, LengthCount]:
    """Applies the task's length limit; a model reads one token beside the text, a classifier two."""
    task_type, policy = TaskType(task.type), task.data.length
    beside = {"source": SPECIALS["source"], "target": 1, "text": SPECIALS["text"]}
    columns = token_columns(data, task_type, {})
    limits = {
        column: min(task.model.max_length - beside[column], policy.max or task.model.max_length)
        for column in columns
    }
    kept, count = limit(name, {column: each.lengths for column, each in columns.items()}, limits, policy)
    padding = None if task.data.padding == "batch" else task.data.padding
    return EncodedSplit(data, task_type, rows=kept, limits=limits, padding=padding), count


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
def _quiet() -> Iterator[None]:
    """Silences the progress bars of `datasets` inside, as its own setting does."""
    shown = datasets.are_progress_bars_disabled() is False
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            datasets.enable_progress_bars()
