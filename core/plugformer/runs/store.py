"""The files of runs: text, JSON and safetensors, written in one step; nothing is unpickled or executed."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from plugformer.errors import RunError

RESTORE = "restore it from a backup or train again"
"""Advice for a damaged file."""

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}")
_CHECKSUM = "sha256"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a temporary path next to `path`; the file or folder written there replaces `path` at the end.

    It is flushed to the disk and renamed, so that a crash leaves the old or the new one.

    Raises:
        RunError: The disk is full or the folder cannot be written; `path` is unchanged.
    """
    temporary = temporary_name(path)
    try:
        yield temporary
        for file in (*temporary.rglob("*"), temporary):
            _flush(file)
        temporary.replace(path)
        _flush(path.parent)
    except BaseException as error:
        _remove(temporary)
        if not isinstance(error, OSError):
            raise
        raise RunError(
            f"{path} cannot be written: {error.strerror or error}. Its previous content is kept: make room "
            "or choose another place with --out, then resume with --resume"
        ) from error


def temporary_name(path: Path) -> Path:
    """Returns a unique name next to `path`, which `remove_leftovers` recognizes."""
    return path.with_name(f".{path.name}.{uuid4().hex[:8]}")


def remove_leftovers(folder: Path) -> None:
    """Removes temporary files of killed processes from a folder, which need not exist."""
    for path in list(folder.iterdir()) if folder.is_dir() else []:
        if _TEMPORARY.fullmatch(path.name):
            _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot open a folder, and flushes only files that are open for writing
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Writes a text file in one step."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: object) -> None:
    """Writes a value as JSON in one step."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def read_file(path: Path) -> bytes:
    """Returns the content of a file of a run directory; raises RunError if it cannot be read."""
    if not path.is_file():
        raise RunError(f"{path} is missing: the run directory is damaged or incomplete")
    try:
        return path.read_bytes()
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror or error}") from error


def read_json(path: Path, schema: TypeAdapter[Any] | None = None) -> Any:
    """Returns the value in a JSON file; raises RunError if it is missing, damaged or not of the schema."""
    return parse_json(path, read_file(path), schema)


def parse_json(path: Path, content: str | bytes, schema: TypeAdapter[Any] | None = None) -> Any:
    """Returns the value of JSON from a file; raises RunError if it is damaged or not of the schema."""
    try:
        value = json.loads(content)
        if schema is not None:
            schema.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        words = f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")
        raise RunError(f"{path} is damaged: {words}; {RESTORE}") from error
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path} is damaged: {error}; {RESTORE}") from error
    return value


def refuse_links(folder: Path) -> None:
    """Raises RunError if a symbolic link in a folder could lead writing out of it."""
    for path in folder.rglob("*"):
        if path.is_symlink():
            raise RunError(f"{path} is a symbolic link: replace it by the file or folder itself")


def own_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Returns a model's state by name; a tensor that several modules share appears under its first name."""
    seen: set[int] = set()
    state: dict[str, Tensor] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            state[name] = tensor.detach().contiguous()
    return state


def save_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Writes tensors in one step; raises RunError if that is impossible."""
    with replacing(path) as temporary:
        write_tensors(tensors, temporary)


def write_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Writes tensors directly to a file; raises OSError if that is impossible."""
    path.touch()
    mode = path.stat().st_mode
    tensors = {name: tensor.cpu() for name, tensor in tensors.items()}
    try:
        save_file(tensors, path, {_CHECKSUM: _checksum_of(tensors)})
        path.chmod(mode)  # safetensors makes files that only their owner can read
    except SafetensorError as error:
        raise OSError(str(error)) from error


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Reads the tensors that `save_tensors` wrote; raises RunError if the file is missing or damaged."""
    if not path.is_file():
        raise RunError(f"{path} is missing: the run has saved no model yet, or is damaged")
    try:
        tensors = load_file(path)
        with safe_open(path, framework="pt") as file:
            expected = (file.metadata() or {}).get(_CHECKSUM)
    except (OSError, SafetensorError) as error:
        raise RunError(f"{path} is damaged: {error}; {RESTORE}") from error
    if _checksum_of(tensors) != expected:
        raise RunError(f"{path} is damaged: its checksum differs; {RESTORE}")
    return tensors


def _checksum_of(tensors: Mapping[str, Tensor]) -> str:
    """Returns a SHA-256 over names, types, shapes and contents."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def restore(model: nn.Module, tensors: Mapping[str, Tensor], source: Path) -> None:
    """Copies tensors into a model; raises RunError if names, shapes and types are not exactly its own."""
    own = own_tensors(model)
    problems = [f"{name} is missing" for name in own.keys() - tensors.keys()]
    problems += [f"{name} is not part of the model" for name in tensors.keys() - own.keys()]
    for name in own.keys() & tensors.keys():
        saved, expected = (f"{tuple(each.shape)} of {each.dtype}" for each in (tensors[name], own[name]))
        if saved != expected:
            problems.append(f"{name} has shape {saved}, the model expects {expected}")
    if problems:
        words = f"{source} does not fit the model that its task describes: {'; '.join(sorted(problems)[:5])}"
        raise RunError(f"{words}. The file, the task or a component has changed")
    model.load_state_dict(tensors, strict=False)


def split_tensors(value: object, name: str) -> tuple[Any, dict[str, Tensor]]:
    """Takes the tensors out of nested mappings and sequences of tensors, numbers, texts and None.

    Returns:
        The value for JSON, with the names of tensors, which begin with `name`, in their places; the tensors.

    Raises:
        RunError: Something else is in it.
    """
    tensors: dict[str, Tensor] = {}

    def record(part: object, path: str) -> object:
        match part:
            case Tensor():
                while path in tensors:  # 1 and "1" are different keys
                    path += "'"
                tensors[path] = part.detach().contiguous()
                return {"tensor": path}
            case Mapping():
                pairs = [[record(key, path), record(item, f"{path}/{key}")] for key, item in part.items()]
                return {"mapping": pairs}
            case tuple():
                return {"tuple": [record(item, f"{path}/{index}") for index, item in enumerate(part)]}
            case list():
                return [record(item, f"{path}/{index}") for index, item in enumerate(part)]
            case None | bool() | int() | float() | str():
                return part
        words = f"the state has a {type(part).__name__} at {path}, which a checkpoint cannot hold"
        raise RunError(f"{words}: expected tensors, numbers, texts, and lists, tuples and mappings of them")

    return record(value, name), tensors


def join_tensors(record: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Returns the original value: the inverse of `split_tensors`."""
    match record:
        case list():
            return [join_tensors(item, tensors) for item in record]
        case {"tensor": name}:
            return tensors[name].clone()
        case {"tuple": items}:
            return tuple(join_tensors(item, tensors) for item in items)
        case {"mapping": pairs}:
            return {join_tensors(key, tensors): join_tensors(item, tensors) for key, item in pairs}
    return record
