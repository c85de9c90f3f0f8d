"""Digests: equal for equal bits, whatever a model, an optimizer or a component keeps."""

import hashlib
import random
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

_CORE = {*vars(nn.Module()), "defaults", "state", "param_groups"}
"""Attributes of every module and optimizer that are looked at elsewhere."""


def digest(value: object) -> str:
    """Returns sixteen hexadecimal digits of the SHA-256 of a value with all that is in it."""
    return hashlib.sha256(_bytes(value)).hexdigest()[:16]


def attributes(owner: object, name: str) -> dict[str, str]:
    """Returns a module's or optimizer's attributes that no checkpoint saves.

    Args:
        owner: The module or optimizer.
        name: What it is called.

    Returns:
        Short values as they are printed, digests of others, by `name.attribute`. Objects of classes that we
        do not know are left out.
    """
    kept = {key: value for key, value in vars(owner).items() if key not in _CORE}
    if isinstance(owner, nn.Module):
        kept |= {key: owner.get_buffer(key) for key in owner._non_persistent_buffers_set}
    return {f"{name}.{key}": shown for key, value in kept.items() if (shown := _shown(value)) is not None}


def _shown(value: object) -> str | None:
    if isinstance(value, bool | int | float | str):
        return repr(value)[:60]
    if _is_plain(value):
        return digest(value)
    return None


def _is_plain(value: object) -> bool:
    """Returns whether digests say all about a value."""
    match value:
        case Mapping():
            return all(map(_is_plain, value.values()))
        case list() | tuple() | set():
            return all(map(_is_plain, value))
        case Tensor():
            return not value.requires_grad
    known = (bool, int, float, str, bytes, np.ndarray, random.Random, np.random.Generator, torch.Generator)
    return value is None or isinstance(value, known)


def _bytes(value: Any) -> bytes:
    match value:
        case Tensor():
            flat = value.detach().cpu().contiguous().reshape(-1)
            return f"{value.dtype}{tuple(value.shape)}".encode() + flat.view(torch.uint8).numpy().tobytes()
        case np.ndarray():
            return f"{value.dtype}{value.shape}".encode() + value.tobytes()
        case torch.Generator():
            return _bytes(value.get_state())
        case np.random.Generator():
            return _bytes(value.bit_generator.state)
        case random.Random():
            return repr(value.getstate()).encode()
        case Mapping():
            return b"{" + b",".join(_bytes(key) + b":" + _bytes(item) for key, item in value.items()) + b"}"
        case list() | tuple():
            return b"[" + b",".join(map(_bytes, value)) + b"]"
        case set() | frozenset():
            return b"{" + b",".join(sorted(map(_bytes, value))) + b"}"
    if is_dataclass(value) and not isinstance(value, type):
        return _bytes([getattr(value, each.name) for each in fields(value)])
    return repr(value).encode() if _is_plain(value) else type(value).__qualname__.encode()
