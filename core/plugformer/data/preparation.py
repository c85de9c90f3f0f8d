"""From a task to examples ready for a model: read, split, tokenized, kept in the cache, limited in length."""

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import metadata
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
from datasets import Dataset
from pydantic import BaseModel, Field, ValidationError

from plugformer.cache import cache_folder, remove_unused, scratch_folder
from plugformer.configuration.task import Component
from plugformer.data.arrow import PLACE, ColumnTexts, TextSplits, encode_to_file, encoded_examples, limited
from plugformer.data.classes import doubtful_classes
from plugformer.data.encoding import EncodedSplit
from plugformer.data.files import SplitStats, files_version, fingerprint
from plugformer.data.processor import Processor, create_processor, load_processor
from plugformer.data.splitting import overlaps, refuse_other_classes, refuse_other_order, split
from plugformer.errors import ConfigurationError, DataError, RegistryError
from plugformer.experiment import Experiment
from plugformer.interfaces import as_text
from plugformer.interfaces.data import Data
from plugformer.registry import Kind, Registry
from plugformer.registry.options import checked_options, keys_of, options_model
from plugformer.registry.source import BLOCKS, code_hash, component_lock

if TYPE_CHECKING:
    from plugformer.data.streaming import StreamedExamples


@dataclass(frozen=True)
class PreparedData:
    """A task's examples as a model reads them.

    Attributes:
        splits: `train`, `validation` and the tests, by name; without `train` if that is streamed.
        hashes: A hash of each split's content as text; of one that is streamed, of the data's version.
        notices: Messages for people about the preparation.
        streamed: The training examples, if they are read during the training.
    """

    splits: dict[str, EncodedSplit]
    processor: Processor
    lengths: dict[str, SplitStats]
    hashes: dict[str, str]
    notices: tuple[str, ...] = ()
    streamed: "StreamedExamples | None" = None


def prepare(experiment: Experiment, processor: Processor | None = None) -> PreparedData:
    """Reads a task's data, learns a processor unless one is given, and encodes all examples.

    The cache keeps prepared examples as long as data, options and code stay the same. Length limits apply
    afterwards. With `data.streaming`, training examples are read when they are needed.

    Args:
        experiment: Its task type gets its state.
        processor: Learned from the training examples if None; the tokenizers may come from another run.

    Raises:
        DataError: The data cannot be read, or an example is too long and the task refuses it.
        RegistryError: A component does not give what its interface promises.
    """
    streaming = experiment.task.data.streaming
    if streaming is None:
        data = _prepared(experiment, processor, lambda: _read(experiment))
        training = experiment.task.training
        return _resampled(data, training.seed) if training.resample else data
    from plugformer.data.streaming import StreamedExamples, open_streams, stored  # few tasks stream

    streams = open_streams(experiment)
    data = _prepared(experiment, processor, lambda: stored(streams, experiment, streaming.tokenizer_examples))
    validation, buffer = data.splits["validation"], streaming.buffer
    sample = validation.select(np.resize(np.arange(len(validation)), buffer).tolist())
    examples = StreamedExamples(streams["train"], experiment, data.processor, buffer, sample)
    return replace(data, streamed=examples)


def _resampled(data: PreparedData, seed: int) -> PreparedData:
    """Returns the data with as many training examples, drawn from them with replacement.

    Every seed then has a training set of its own, as in the bootstrap of Bouthillier et al. (2021), section
    3, https://arxiv.org/abs/2103.03098. Nothing else changes: what is learned before a model is built is
    learned from all examples.
    """
    train = data.splits["train"]
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))  # unlike all others
    rows = generator.integers(len(train), size=len(train))
    return replace(data, splits={**data.splits, "train": train.select(rows.tolist())})


def _prepared(
    experiment: Experiment, processor: Processor | None, read: Callable[[], TextSplits]
) -> PreparedData:
    version = data_version(experiment)
    key, learned = cache_key(experiment, version), None
    keys = [] if key is None else [key]
    if key is not None and processor is not None:
        with TemporaryDirectory() as folder:
            learned = _fingerprints(processor, Path(folder))
        keys.append(fingerprint(key, *learned.values()))
    found = [entry for entry in map(PreparedEntry.find, keys) if entry is not None]
    entry = next((entry for entry in found if learned in (None, entry.learned)), None)
    if entry is None:
        texts, train, notices = read()
        if processor is None:
            processor = _learn_processor(experiment, train())
        refuse_other_order(next(iter(texts.values())).features, processor.classes or ())
        notices = [*notices, *overlaps(texts, experiment.columns)]
        notices += doubtful_classes(processor.task_type, experiment.columns, texts)
        entry = PreparedEntry.make(keys[-1] if keys else None, texts, processor, notices)
    elif processor is None:
        processor = load_processor(experiment, entry.folder, entry.task_type)
    splits, lengths = {}, {}
    for name, examples in entry.splits.items():
        splits[name], lengths[name] = _limited(name, examples, experiment, processor)
    # Of a split that is streamed nothing but the version is known.
    return PreparedData(splits, processor, lengths, {"train": version, **entry.hashes}, tuple(entry.notices))


def _limited(
    name: str, data: Dataset, experiment: Experiment, processor: Processor
) -> tuple[EncodedSplit, SplitStats]:
    """Returns examples that are called `name`, within the limits of the task, and their counts."""

    def place(row: int) -> str:
        beginning = as_text(data[row][processor.task_type.columns[0].name])[:40]
        return f"{name}, example {row + 1} ({beginning!r})"

    texts, encoded = encoded_examples(data, processor.task_type.level)
    split, stats = limited(texts, encoded, experiment, processor, place, training=name == "train")
    if len(split) == 0:
        raise DataError(
            f"{name}: all of its {len(data)} examples are longer than the limit, the longest side has "
            f"{stats.longest} tokens; raise model.max_length or data.length.max"
        )
    return split, stats


def _learn_processor(experiment: Experiment, train: Dataset) -> Processor:
    """Learns the tokenizers and the task type's state from the training examples."""
    task_type, run = experiment.task_type, experiment.task.tokenizer.run
    task_type.state = task_type.learn(train)
    processor = create_processor(experiment, None if run is None else Path(run))
    if run is None:
        names = train.column_names
        source, target = (
            [each.name for each in task_type.columns if each.tokenizer == side and each.name in names]
            for side in ("source", "target")
        )
        one = processor.target is processor.source
        processor.source.train(ColumnTexts(train, *source, *(target if one else ())))
        if not one:
            processor.target.train(ColumnTexts(train, *target))
    return processor


def _read(experiment: Experiment) -> TextSplits:
    """Returns a task's examples as text, split as the task says."""
    block, columns = experiment.task.data, experiment.columns
    examples = experiment.data.load(columns)
    for name, data in examples.items():
        if len(data) == 0:
            raise DataError(f"data {block.name!r}: split {name!r} has no examples; check its files")
        for column in columns:
            if not column.optional and column.name not in data.column_names:
                raise RegistryError(
                    f"data {block.name!r} gave split {name!r} without the column {column.name!r}, only "
                    f"{sorted(data.column_names)}"
                )
    splits = split(examples, block.split, experiment.task_type)
    refuse_other_classes({name: data.features for name, data in splits.items()}, columns)
    notices = [*experiment.data.notices(), *_read_twice(block.options.get("columns"))]
    return splits, lambda: splits["train"], notices


def _read_twice(columns: object) -> list[str]:
    """Returns notices of the task's columns that are read from one column of the data."""
    pairs = combinations(columns.items() if isinstance(columns, Mapping) else (), 2)
    return [
        f"WARNING: data.columns: {one} and {other} are both read from {column!r}; name another column for one"
        for (one, column), (other, second) in pairs
        if column == second
    ]


OtherData = tuple[EncodedSplit, SplitStats, Sequence[str]]
"""A split of other data, the counts of its examples, and notices of the data component."""


def read_files(files: Sequence[Path], experiment: Experiment, processor: Processor) -> OtherData:
    """Reads one file, two parallel ones or several that follow one another, as a task reads its data."""
    block, registry = experiment.task.data, experiment.registry
    model = options_model(registry.load(Kind.DATA, block.name))
    if "files" not in keys_of(model):
        raise ConfigurationError(
            f"data {block.name!r} has no option 'files', so that it cannot read others; "
            "change its own options with --set data.OPTION=VALUE, or name other data with --set "
            "data.name=table --set data.files.train=FILE"
        )
    # A component without the option `labels` takes the classes from its training files. The split is not
    # called `test`, because a component may cut a split of that name off the training files.
    part = "test_files" if processor.classes is None or "labels" in block.options else "train"
    paths = [str(file.absolute()) for file in files]
    forms: list[object] = [paths[0]] if len(paths) == 1 else [paths]
    if len(paths) == 2:
        forms = [{"source": paths[0], "target": paths[1]}, *forms]
    name = ", ".join(map(str, files))
    for form in forms:
        options: dict[str, Any] = {**block.options, "files": {part: form}}
        with suppress(ValidationError):
            model.model_validate(options)
            break
    else:
        raise ConfigurationError(
            f"data {block.name!r} cannot read {len(paths)} file{'s' * (len(paths) > 1)} as a split: {name}; "
            "parallel files are two, source before target"
        )
    if "labels" in options and options["labels"] is None:
        options["labels"] = processor.classes
    return _encoded(registry.create(Kind.DATA, block.name, **options), part, name, experiment, processor)


def read_rows(rows: Any, experiment: Experiment, processor: Processor) -> OtherData:
    """Like `read_files`, but with rows in memory, which have the columns of the task."""
    block = experiment.task.data
    options = block.options if block.name == "memory" else {}
    data: Data = experiment.registry.create(Kind.DATA, "memory", **{**options, "labels": processor.classes})
    data.rows = {"rows": rows}
    return _encoded(data, "rows", "the rows", experiment, processor)


def _encoded(data: Data, part: str, name: str, experiment: Experiment, processor: Processor) -> OtherData:
    """Returns a split of other data, which error messages call `name`."""
    examples = data.load(experiment.columns)[part]
    refuse_other_order(examples.features, processor.classes or ())
    if len(examples) == 0:
        raise DataError(f"{name}: no examples; check the file")
    entry = PreparedEntry.make(None, {name: examples}, processor, data.notices())
    return *_limited(name, entry.splits[name], experiment, processor), entry.notices


class PreparedEntry(BaseModel):
    """A task's examples with their token numbers, and the files of its tokenizers, in a folder of the cache.

    The first split is in `0.arrow`. `entry.json` has hashes of each split's texts and of what each tokenizer
    and the task's type have learned, the state of the type, and notices.
    """

    folder: Path = Field(exclude=True)
    hashes: dict[str, str]
    learned: dict[str, str]
    task_type: Any
    notices: list[str]

    @cached_property
    def splits(self) -> dict[str, Dataset]:
        """The examples by split, memory-mapped."""
        return {
            name: Dataset.from_file(str(self.folder / f"{number}.arrow"))
            for number, name in enumerate(self.hashes)
        }

    @classmethod
    def find(cls, key: str) -> "PreparedEntry | None":
        """Returns the entry stored under a key, or None; removes an entry that cannot be read."""
        folder = cache_folder() / PLACE / key
        if not folder.is_dir():
            return None
        try:
            entry = cls(folder=folder, **json.loads((folder / "entry.json").read_bytes()))
            entry.splits  # noqa: B018 (opens the files)
        except (OSError, ValueError, TypeError, pa.ArrowException):
            shutil.rmtree(folder, ignore_errors=True)
            return None
        with suppress(OSError):
            os.utime(folder)  # the time of its last use
        return entry

    @classmethod
    def make(
        cls, key: str | None, examples: Mapping[str, Dataset], processor: Processor, notices: Sequence[str]
    ) -> "PreparedEntry":
        """Encodes examples and stores them; without a key or a writable cache, for this process alone."""
        folder = scratch_folder(PLACE) / uuid4().hex
        folder.mkdir()
        learned, hashes = _fingerprints(processor, folder), {}
        for number, (name, data) in enumerate(examples.items()):
            texts = encode_to_file(folder / f"{number}.arrow", data, processor, name)
            digest = hashlib.sha256(json.dumps(texts.column_names).encode())
            for batch in texts.with_format("arrow").iter(10_000):
                rows = json.dumps(batch.to_pydict(), ensure_ascii=False)
                digest.update(rows.encode("utf-8", "surrogatepass"))
            hashes[name] = digest.hexdigest()
        state = processor.task_type.state
        entry = cls(folder=folder, hashes=hashes, learned=learned, task_type=state, notices=[*notices])
        (folder / "entry.json").write_text(entry.model_dump_json(), encoding="utf-8")
        if key is not None:
            with suppress(OSError):  # not writable, or another process has stored the same meanwhile
                entry.folder = folder.rename(cache_folder() / PLACE / key)
                remove_unused(entry.folder.parent)
        return entry


def _fingerprints(processor: Processor, folder: Path) -> dict[str, str]:
    """Saves tokenizers in a folder; returns hashes of their states and of that of the task's type."""
    state = processor.task_type.state
    task_type = {} if state is None else {"task_type": fingerprint(json.dumps(state))}
    return processor.save(folder) | task_type


def cache_key(experiment: Experiment, version: str) -> str | None:
    """Returns the key of a task's examples and of the tokenizers that are trained on them.

    Length limits and padding are not in it: they apply to prepared examples. There is no key, and nothing is
    cached, if a class of the session takes part: the functions that it uses may change at any time.
    `version` is that of the data.
    """
    task, registry = experiment.task, experiment.registry
    tokenizers = task.tokenizer.source, task.tokenizer.target
    blocks: list[tuple[Kind, Component]] = [(Kind.TASK_TYPE, task.type), (Kind.DATA, task.data)]
    blocks += [(Kind.TOKENIZER, block) for block in tokenizers]
    entries = [registry.find(kind, block.name) for kind, block in blocks]
    entries += [registry.find(Kind.COLUMN, column.holds) for column in experiment.columns]
    if any(entry.component is not None for entry in entries):
        return None
    learned = sorted(Path(task.tokenizer.run).glob("tokenizer-*.json")) if task.tokenizer.run else []
    for block in tokenizers:
        learned += [path for path in _paths(Kind.TOKENIZER, block, registry) if path.is_file()]
    parts = {
        "code": code_hash(entries, "plugformer.data", "plugformer.interfaces", BLOCKS),
        "versions": [platform.python_version(), *map(metadata.version, ("datasets", "tokenizers"))],
        "components": [
            {"name": block.name, "options": block.options, **component_lock(registry.find(kind, block.name))}
            for kind, block in blocks
        ],
        "data": task.data.model_dump(include={"split", "streaming"}),
        "shared": task.tokenizer.shared,
        "version": version,
        "files": files_version(learned),
    }
    return fingerprint(json.dumps(parts, sort_keys=True, default=str))


def data_version(experiment: Experiment) -> str:
    """Returns a fingerprint of path, size and time of the files of data, and the component's own version."""
    parts = [experiment.data.version()]
    for path in _paths(Kind.DATA, experiment.task.data, experiment.registry):
        if path.is_file():  # `Data.version` covers folders
            state = path.stat()
            parts.append(f"{path} {state.st_size} {state.st_mtime_ns}")
    return fingerprint(*parts)


def missing_files(experiment: Experiment) -> list[Path]:
    """Returns the files and folders that the options of data name and that do not exist."""
    paths = _paths(Kind.DATA, experiment.task.data, experiment.registry)
    return [path for path in paths if not path.exists()]


def _paths(kind: Kind, block: Component, registry: Registry) -> list[Path]:
    """Returns the files and folders that a component's options name."""

    def within(option: object) -> Iterator[Path]:
        if isinstance(option, Path):
            yield option
        elif isinstance(option, BaseModel | Mapping):
            yield from within(list(dict(option).values()))
        elif isinstance(option, Collection) and not isinstance(option, str | bytes):
            for part in option:
                yield from within(part)

    return list(within(checked_options(registry.load(kind, block.name), block.options, block.name)))
