"""Prepared examples on disk, and the key of everything that decides what they are."""

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from datasets import Dataset, DatasetDict
from packaging.requirements import InvalidRequirement, Requirement
from pydantic import BaseModel, ConfigDict

from plugformer.cache import cache_folder, remove_unused, scratch_folder
from plugformer.configuration.task import Component
from plugformer.data.arrow import PLACE, encode_to_file
from plugformer.data.files import files_version, fingerprint
from plugformer.data.vocabularies import Vocabularies, has_one, save_tokenizers
from plugformer.errors import DataError
from plugformer.experiment import Experiment
from plugformer.kinds import Kind
from plugformer.registry import Registry
from plugformer.registry.options import checked_options
from plugformer.registry.source import BLOCKS, code_hash, component_lock

_LIST = "entry.json"

_CODE = ("plugformer.data", "plugformer.interfaces", BLOCKS)
"""Packages whose code takes part, besides those of the components."""


class Content(BaseModel):
    """What is known about prepared examples: what `entry.json` beside them says.

    Attributes:
        hashes: A hash of each split's content without token numbers; the first split is in `0.arrow`.
        learned: A hash of what each side's tokenizer, and the task's type, have learned.
        task_type: What the task's type has learned.
        notices: What the data component said about the examples, and which splits share some.
        files: A hash of every other file, by name.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    hashes: dict[str, str]
    learned: dict[str, str]
    task_type: Any
    notices: list[str]
    files: dict[str, str]


@dataclass(frozen=True)
class PreparedEntry:
    """A task's examples with their token numbers, memory-mapped.

    Attributes:
        folder: Where they lie, with the files of the tokenizers.
        splits: The examples by split.
        content: What is known about them.
    """

    folder: Path
    splits: dict[str, Dataset]
    content: Content

    @classmethod
    def find(cls, key: str) -> "PreparedEntry | None":
        """Returns the entry stored under a key, or None.

        Raises:
            DataError: Something was, but it is damaged.
        """
        folder = _place(key)
        if not folder.is_dir():
            return None
        try:
            entry = cls._open(folder)
        except (OSError, ValueError, DataError, pa.ArrowException) as error:
            cause = str(error).partition("\n")[0]
            raise DataError(
                f"{folder}: the prepared examples are damaged: {cause}; they are prepared again"
            ) from error
        with suppress(OSError):
            os.utime(folder)  # the time of its last use
        return entry

    @classmethod
    def make(
        cls,
        key: str,
        examples: DatasetDict,
        vocabularies: Vocabularies,
        notices: Sequence[str],
    ) -> "PreparedEntry":
        """Encodes examples and stores them; for this process alone where the cache cannot be written."""
        folder = scratch_folder(PLACE) / uuid4().hex
        folder.mkdir()
        learned = fingerprints(vocabularies, folder)
        hashes = {
            name: _content_hash(
                encode_to_file(folder / f"{number}.arrow", data, vocabularies, partial(_place_in, name))
            )
            for number, (name, data) in enumerate(examples.items())
        }
        content = Content(
            hashes=hashes,
            learned=learned,
            task_type=vocabularies.learned,
            # The name of a file that is not UTF-8 has no place in JSON.
            notices=[each.encode("utf-8", "replace").decode() for each in notices],
            files={file.name: files_version([file]) for file in sorted(folder.iterdir())},
        )
        (folder / _LIST).write_text(content.model_dump_json(), encoding="utf-8")
        return cls._from_content(content, _stored(folder, key))

    @classmethod
    def _open(cls, folder: Path) -> "PreparedEntry":
        content = Content.model_validate_json((folder / _LIST).read_bytes())
        for name, expected in content.files.items():
            if files_version([folder / name]) != expected:
                raise ValueError(f"{name} is not what was written")
        return cls._from_content(content, folder)

    @classmethod
    def _from_content(cls, content: Content, folder: Path) -> "PreparedEntry":
        names = enumerate(content.hashes)
        return cls(
            folder,
            {name: Dataset.from_file(str(folder / f"{number}.arrow")) for number, name in names},
            content,
        )


def fingerprints(vocabularies: Vocabularies, folder: Path) -> dict[str, str]:
    """Writes what tokenizers have learned into a folder; returns hashes of that and of the type's."""
    own = {} if vocabularies.learned is None else {"task_type": fingerprint(json.dumps(vocabularies.learned))}
    return save_tokenizers(vocabularies.tokenizers, folder) | own


def _content_hash(data: Dataset) -> str:
    """Returns a SHA-256 over all rows; independent of how the file or the memory is laid out."""
    digest = hashlib.sha256(json.dumps(data.column_names).encode())
    for batch in data.with_format("arrow").iter(10_000):
        digest.update(json.dumps(batch.to_pydict(), ensure_ascii=False).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _place_in(split: str, row: int) -> str:
    return f"{split}, example {row + 1}"


def remove(key: str) -> None:
    """Removes what was stored under a key, as far as that is possible."""
    shutil.rmtree(_place(key), ignore_errors=True)


def _place(key: str) -> Path:
    return cache_folder() / PLACE / key


def _stored(folder: Path, key: str) -> Path:
    """Gives a folder its final place and returns it.

    It stays where it is if the cache cannot be written, or another process has stored the same meanwhile.
    """
    try:
        place = folder.rename(_place(key))
    except OSError:
        return folder
    remove_unused(place.parent)
    return place


def cache_key(experiment: Experiment, version: str) -> str:
    """Returns the key of a task's examples and of the tokenizers that are trained on them.

    Length limits and padding are not in it: they apply to what was prepared.

    Args:
        experiment: Has the data and tokenizer components.
        version: The version of the data, from `data_version`.
    """
    task, registry = experiment.task, experiment.registry
    one = has_one(task.tokenizer, experiment.task_type.columns)
    tokenizers = [task.tokenizer.source] if one else [task.tokenizer.source, task.tokenizer.target]
    # Of a run that is gone there are none: the task's own run has a copy of them.
    taken = sorted(Path(task.tokenizer.run).glob("tokenizer-*.json")) if task.tokenizer.run else []
    blocks = [
        (Kind.TASK_TYPE, task.type),
        (Kind.DATA, task.data),
        *((Kind.TOKENIZER, each) for each in tokenizers),
    ]
    entries = [registry.find(kind, block.name) for kind, block in blocks]
    parts = {
        "code": code_hash(entries, *_CODE),
        "python": platform.python_version(),
        "type": _made_of(Kind.TASK_TYPE, task.type, registry),
        "split": task.data.split and task.data.split.model_dump(),
        "streamed": task.data.streaming and task.data.streaming.tokenizer_examples,
        "data": _made_of(Kind.DATA, task.data, registry),
        "version": version,
        "tokenizers": [_made_of(Kind.TOKENIZER, block, registry) for block in tokenizers],
        "run": files_version(taken),
        "files": [files_version(_files(Kind.TOKENIZER, block, registry)) for block in tokenizers],
    }
    return fingerprint(json.dumps(parts, sort_keys=True, default=str))


def data_version(experiment: Experiment) -> str:
    """Returns a fingerprint of the examples: the content of files and the component's own version.

    Of files to be streamed only samples are read.
    """
    block = experiment.task.data
    files = _files(Kind.DATA, block, experiment.registry)
    return fingerprint(files_version(files, sampled=block.streaming is not None), experiment.data.version())


def _made_of(kind: Kind, block: Component, registry: Registry) -> dict[str, Any]:
    lock = component_lock(kind, block.name, registry)
    libraries = _libraries(lock["distribution"])
    return {"name": block.name, "options": block.options, "libraries": libraries, **lock}


def missing_files(experiment: Experiment) -> list[Path]:
    """Returns the files and folders that the options of data name and that are not there."""
    paths = _paths(Kind.DATA, experiment.task.data, experiment.registry)
    return [path for path in paths if not path.exists()]


def _files(kind: Kind, block: Component, registry: Registry) -> Iterator[Path]:
    """Yields the files that a component's options name; a folder's content is for `Data.version` to tell."""
    return (path for path in _paths(kind, block, registry) if path.is_file())


def _paths(kind: Kind, block: Component, registry: Registry) -> Iterator[Path]:
    """Yields the files and folders that a component's options name."""
    return _named(checked_options(registry.load(kind, block.name), block.options, block.name))


def _named(value: object) -> Iterator[Path]:
    if isinstance(value, Path):
        yield value
    elif isinstance(value, BaseModel):
        yield from _named(dict(value))
    elif isinstance(value, Mapping):
        yield from _named(list(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _named(each)
    elif isinstance(value, set | frozenset):  # in the same order in every process
        yield from _named(sorted(value, key=str))


def _libraries(distribution: str) -> dict[str, str]:
    """Returns the versions of what a distribution requires: a new one may read or cut text differently."""
    try:
        required = [Requirement(line) for line in metadata.requires(distribution) or []]
    except (metadata.PackageNotFoundError, InvalidRequirement):  # a local component, or one badly packaged
        return {}
    versions = {}
    for each in required:
        if each.marker is None or each.marker.evaluate({"extra": ""}):
            try:
                versions[each.name] = metadata.version(each.name)
            except metadata.PackageNotFoundError:
                versions[each.name] = "missing"
    return versions
