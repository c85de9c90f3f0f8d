"""The key of prepared examples: everything that decides what they are."""

import hashlib
import json
import platform
from collections.abc import Iterator, Mapping
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from pydantic import BaseModel

from plugformer.configuration.task import Component, DataBlock, Task
from plugformer.data.fingerprints import files_version, fingerprint, sampled_version
from plugformer.data.tokenizing import has_one, learned_by
from plugformer.interfaces.data import Data
from plugformer.kinds import Kind
from plugformer.registry import Registry
from plugformer.registry.options import checked_options
from plugformer.registry.source import component_lock

_CORE = ("plugformer.data", "plugformer.interfaces")
"""Packages of the core whose code takes part."""


def cache_key(task: Task, registry: Registry, version: str) -> str:
    """Returns the key of a task's examples and of the tokenizers that are trained on them.

    Length limits and padding are not in it: they apply to what was prepared.

    Args:
        task: Fully resolved.
        registry: Knows the data and tokenizer components.
        version: Of the data, as `data_version` gives it.
    """
    tokenizers = [task.tokenizer.source]
    tokenizers += [] if has_one(task, registry) else [task.tokenizer.target]
    parts = {
        "core": _core(),
        "python": platform.python_version(),
        "type": _made_of(Kind.TASK_TYPE, task.type, registry),
        "split": task.data.split and task.data.split.model_dump(),
        "streamed": task.data.streaming and task.data.streaming.tokenizer_examples,
        "data": _made_of(Kind.DATA, task.data, registry),
        "version": version,
        "tokenizers": [_made_of(Kind.TOKENIZER, block, registry) for block in tokenizers],
        "run": _of_run(task),
        "files": [files_version(_files(Kind.TOKENIZER, block, registry)) for block in tokenizers],
    }
    return fingerprint(json.dumps(parts, sort_keys=True, default=str))


def _of_run(task: Task) -> list[str]:
    """Returns what the tokenizers of the run have learned that a task takes them from, hashed.

    Nothing if that run is gone: whoever has the tokenizers already needs it no more.
    """
    if task.tokenizer.run is None:
        return []
    files = [learned_by(Path(task.tokenizer.run), side) for side in ("source", "target")]
    return [files_version([file]) for file in files if file.exists()]


def data_version(data: Data, block: DataBlock, registry: Registry) -> str:
    """Returns what tells examples of the same options apart: the content of files, and what the data say.

    Of files to be streamed only samples are read.

    Args:
        data: The component.
        block: Its name and options.
        registry: Knows its class.
    """
    version = files_version if block.streaming is None else sampled_version
    return fingerprint(version(_files(Kind.DATA, block, registry)), data.version())


def _core() -> dict[str, str]:
    """Returns the source of all modules of the core that take part, hashed."""
    return {
        f"{package}.{file.name}": hashlib.sha256(file.read_bytes()).hexdigest()
        for package in _CORE
        for file in resources.files(package).iterdir()
        if file.name.endswith(".py")
    }


def _made_of(kind: Kind, block: Component, registry: Registry) -> dict[str, Any]:
    lock = component_lock(kind, block.name, registry)
    libraries = _libraries(lock["distribution"])
    return {"name": block.name, "options": block.options, "libraries": libraries, **lock}


def missing_files(block: DataBlock, registry: Registry) -> list[Path]:
    """Returns the files and folders that the options of data name and that are not there."""
    return [path for path in _paths(Kind.DATA, block, registry) if not path.exists()]


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
