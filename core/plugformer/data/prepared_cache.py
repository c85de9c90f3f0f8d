"""Prepared examples on disk, and the key of everything that decides what they are."""

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from datasets import Dataset, DatasetDict
from pydantic import BaseModel, Field

from plugformer.cache import cache_folder, remove_unused, scratch_folder
from plugformer.configuration.task import Component
from plugformer.data.arrow import PLACE, encode_to_file
from plugformer.data.files import files_version, fingerprint
from plugformer.data.processor import Processor, has_one, save_tokenizers
from plugformer.experiment import Experiment
from plugformer.registry import Kind, Registry
from plugformer.registry.options import checked_options
from plugformer.registry.source import BLOCKS, code_hash, component_lock

_LIST = "entry.json"

_CODE = ("plugformer.data", "plugformer.interfaces", BLOCKS)
"""Packages whose code takes part, besides those of the components."""


class PreparedEntry(BaseModel):
    """A task's examples with their token numbers, and the files of its tokenizers, in a folder.

    Attributes:
        folder: The folder; all other attributes are in its `entry.json`.
        hashes: A hash of each split's content without token numbers; the first split is in `0.arrow`.
        learned: A hash of the state of each tokenizer and of the task's type.
        task_type: The state of the task's type.
        notices: Of the data component, and about splits that share examples.
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
            entry = cls(folder=folder, **json.loads((folder / _LIST).read_bytes()))
            entry.splits  # noqa: B018 (opens the files)
        except (OSError, ValueError, TypeError, pa.ArrowException):
            shutil.rmtree(folder, ignore_errors=True)
            return None
        with suppress(OSError):
            os.utime(folder)  # the time of its last use
        return entry

    @classmethod
    def make(
        cls, key: str | None, examples: DatasetDict, processor: Processor, notices: Sequence[str]
    ) -> "PreparedEntry":
        """Encodes examples and stores them; without a key or a writable cache, for this process alone."""
        folder = scratch_folder(PLACE) / uuid4().hex
        folder.mkdir()
        learned = fingerprints(processor, folder)
        hashes = {}
        for number, (name, data) in enumerate(examples.items()):

            def place(row: int, name: str = name) -> str:
                return f"{name}, example {row + 1}"

            hashes[name] = _content_hash(encode_to_file(folder / f"{number}.arrow", data, processor, place))
        entry = cls(
            folder=folder,
            hashes=hashes,
            learned=learned,
            task_type=processor.task_type.state,
            notices=[*notices],
        )
        (folder / _LIST).write_text(entry.model_dump_json(), encoding="utf-8")
        if key is None:
            return entry
        with suppress(OSError):  # not writable, or another process has stored the same meanwhile
            entry.folder = folder.rename(cache_folder() / PLACE / key)
            remove_unused(entry.folder.parent)
        return entry


def fingerprints(processor: Processor, folder: Path) -> dict[str, str]:
    """Saves tokenizers in a folder; returns hashes of their states and of that of the task's type."""
    state = processor.task_type.state
    task_type = {} if state is None else {"task_type": fingerprint(json.dumps(state))}
    return save_tokenizers(processor.tokenizers, folder) | task_type


def _content_hash(data: Dataset) -> str:
    """Returns a SHA-256 over all rows, whatever the layout of the file or the memory."""
    digest = hashlib.sha256(json.dumps(data.column_names).encode())
    for batch in data.with_format("arrow").iter(10_000):
        digest.update(json.dumps(batch.to_pydict(), ensure_ascii=False).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def cache_key(experiment: Experiment, version: str) -> str | None:
    """Returns the key of a task's examples and of the tokenizers that are trained on them.

    Length limits and padding are not in it: they apply to prepared examples. There is no key, and nothing is
    cached, if a class of the session takes part: the functions that it uses may change at any time.

    Args:
        experiment: Has the data and tokenizer components.
        version: The version of the data, from `data_version`.
    """
    task, registry = experiment.task, experiment.registry
    one = has_one(task.tokenizer, experiment.task_type.columns)
    tokenizers = [task.tokenizer.source] if one else [task.tokenizer.source, task.tokenizer.target]
    blocks = [
        (Kind.TASK_TYPE, task.type),
        (Kind.DATA, task.data),
        *((Kind.TOKENIZER, block) for block in tokenizers),
    ]
    entries = [registry.find(kind, block.name) for kind, block in blocks]
    if any(entry.component is not None for entry in entries):
        return None
    if task.data.streaming is not None:
        entries += registry.hooks()
    # A run that is gone has none: the task's own run has a copy of them.
    learned = sorted(Path(task.tokenizer.run).glob("tokenizer-*.json")) if task.tokenizer.run else []
    for block in tokenizers:
        learned += [path for path in _paths(Kind.TOKENIZER, block, registry) if path.is_file()]
    parts = {
        "code": code_hash(entries, *_CODE),
        "versions": [platform.python_version(), *map(metadata.version, ("datasets", "tokenizers"))],
        "components": [
            {"name": block.name, "options": block.options, **component_lock(kind, block.name, registry)}
            for kind, block in blocks
        ],
        "split": task.data.split and task.data.split.model_dump(),
        "streamed": task.data.streaming and task.data.streaming.tokenizer_examples,
        "version": version,
        "files": files_version(learned),
    }
    return fingerprint(json.dumps(parts, sort_keys=True, default=str))


def data_version(experiment: Experiment) -> str:
    """Returns a fingerprint of the files of data, by path, size and time, and of the component's own version."""
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
