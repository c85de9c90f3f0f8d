"""Tensors on disk: parameters, and states of optimizers and hooks; safetensors and JSON, never pickles."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from plugformer.errors import RunError
from plugformer.runs.files import RESTORE, replacing, require_file

_NOTE = "note"
_CHECKSUM = "sha256"


def own_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Returns a model's state by name; a tensor that several modules share appears under its first name."""
    seen: set[int] = set()
    state: dict[str, Tensor] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            state[name] = tensor.detach().contiguous()
    return state


def save_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """Writes tensors, replacing what was there in one step.

    Raises:
        RunError: The place cannot be written.
    """
    with replacing(path) as temporary:
        write_tensors(tensors, temporary)


def write_tensors(tensors: dict[str, Tensor], path: Path, *, note: str = "") -> None:
    """Writes tensors, and a note that `load_note` reads, straight to a file.

    Raises:
        OSError: The place cannot be written (safetensors has an error of its own for that).
    """
    path.touch()
    mode = path.stat().st_mode
    tensors = {name: tensor.cpu() for name, tensor in tensors.items()}
    about = {_CHECKSUM: checksum(tensors), **({_NOTE: note} if note else {})}
    try:
        save_file(tensors, path, about)
        path.chmod(mode)  # as the umask has it: safetensors makes files that their owner alone can read
    except SafetensorError as error:
        raise OSError(str(error)) from error


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Reads what `save_tensors` wrote.

    Raises:
        RunError: The file is missing or damaged.
    """
    if not os.path.lexists(path):
        raise RunError(f"{path} is missing: the run has saved no model yet, or is damaged")
    require_file(path)
    try:
        tensors = load_file(path)
        expected = _about(path)[_CHECKSUM]
    except (OSError, SafetensorError, KeyError) as error:
        raise RunError(f"{path} is damaged: {error}; {RESTORE}") from error
    if (found := checksum(tensors)) != expected:
        raise RunError(
            f"{path} is damaged: its tensors have the SHA-256 {found[:12]}..., expected {expected[:12]}...; "
            f"{RESTORE}"
        )
    return tensors


def _about(path: Path) -> dict[str, str]:
    with safe_open(path, framework="pt") as file:
        return file.metadata() or {}


def checksum(tensors: Mapping[str, Tensor]) -> str:
    """Returns a SHA-256 over names, types, shapes and contents."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def load_note(path: Path) -> str:
    """Reads the note that was written with tensors.

    Raises:
        RunError: The file is missing or damaged, or has no note.
    """
    require_file(path)
    try:
        return _about(path)[_NOTE]
    except (OSError, SafetensorError, KeyError) as error:
        raise RunError(f"{path} is damaged: {error}; {RESTORE}") from error


def mean_tensors(paths: Sequence[Path]) -> dict[str, Tensor]:
    """Returns the mean of the parameters in several files of one model, computed in float64.

    What is no floating-point number, such as a counter, is taken from the last file.

    Args:
        paths: Files that `save_tensors` wrote, such as the `model.safetensors` of checkpoints.

    Raises:
        RunError: A file is missing or damaged.
    """
    last = load_tensors(paths[-1])
    totals = {name: tensor.double() for name, tensor in last.items() if tensor.is_floating_point()}
    for path in paths[:-1]:
        tensors = load_tensors(path)
        totals = {name: total + tensors[name] for name, total in totals.items()}
    return last | {name: (total / len(paths)).to(last[name].dtype) for name, total in totals.items()}


def mismatches(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> list[str]:
    """Returns how saved tensors differ from a model's in names, shapes and types, sorted."""
    found = [f"{name} is missing" for name in own.keys() - tensors.keys()]
    found += [f"{name} is not part of the model" for name in tensors.keys() - own.keys()]
    for name in own.keys() & tensors.keys():
        theirs, mine = tensors[name], own[name]
        if theirs.shape != mine.shape:
            found.append(f"{name} has shape {tuple(theirs.shape)}, the model expects {tuple(mine.shape)}")
        if theirs.dtype != mine.dtype:
            found.append(f"{name} has the type {theirs.dtype}, the model expects {mine.dtype}")
    return sorted(found)


def restore(model: nn.Module, tensors: dict[str, Tensor], source: Path) -> None:
    """Copies tensors into a model whose parts have exactly these names, shapes and types.

    Raises:
        RunError: A tensor is missing, left over, or of another shape or type.
    """
    if found := mismatches(own_tensors(model), tensors):
        raise RunError(
            f"{source} does not fit the model that its task describes: {'; '.join(found[:5])}. "
            "The file, the task or a component has changed since"
        )
    model.load_state_dict(tensors, strict=False)


def split_tensors(value: object, name: str) -> tuple[Any, dict[str, Tensor]]:
    """Takes the tensors out of nested mappings and sequences.

    Args:
        value: Mappings, lists, tuples, tensors, numbers, texts, truth values and None.
        name: What the names of the tensors begin with.

    Returns:
        The value as JSON holds it, with the names of tensors in their places, and the tensors.

    Raises:
        RunError: Something else is in it.
    """
    tensors: dict[str, Tensor] = {}

    def record(part: object, path: str) -> object:
        match part:
            case Tensor():
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
        raise RunError(
            f"{path} of the {name.partition(' ')[0]}'s state is a {type(part).__name__}, which a checkpoint "
            "cannot hold: expected tensors, numbers, texts, and lists, tuples and mappings of them; correct "
            f"the {name}"
        )

    return record(value, name), tensors


def join_tensors(record: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Returns the original record: the inverse of `split_tensors`.

    Raises:
        KeyError: A tensor is missing.
    """
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
