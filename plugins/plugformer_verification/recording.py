"""Recording a training: after each update, everything that the next one depends on."""

import hashlib
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from plugformer.hooks import Run, Update, hookimpl, must_not_fail
from plugformer.runs import generator_states, own_tensors

_CORE = {*vars(nn.Module()), "defaults", "state", "param_groups"}
"""Attributes of every module and optimizer that are looked at elsewhere."""


class Recording:
    """Writes a line of JSON about each update: digests of what it was made from, and of what it left.

    Args:
        file: Appended to.
        segment: Number of this process among those of one training.
        reached: Told each update's number, once its line is written.
    """

    def __init__(self, file: Path, segment: int, reached: Callable[[int], None]) -> None:
        self._file = file
        self._segment = segment
        self._reached = reached
        self._batches: list[dict[str, Any]] = []
        self._outputs: list[tuple[str, str]] = []
        self._optimizer: torch.optim.Optimizer | None = None

    @hookimpl
    @must_not_fail
    def run_started(self, run: Run) -> None:
        """Listens to the model and to the optimizer."""
        run.model.register_forward_pre_hook(self._note_batch)
        for name, module in run.model.named_modules():
            module.register_forward_hook(self._listener(name or "the model"))
        register_optimizer_step_post_hook(self._note_optimizer)

    @hookimpl(trylast=True)
    @must_not_fail
    def step_ended(self, run: Run, update: Update) -> None:
        """Writes the line."""
        generators = generator_states(next(run.model.parameters()).device)
        line = {
            "segment": self._segment,
            "step": update.step,
            "batches": {f"batch {number}": batch for number, batch in enumerate(self._batches, start=1)},
            "learning rate": {"of the first group": repr(update.learning_rate)},
            "loss": {"mean over the targets": repr(update.loss)},
            "parameters": {name: digest(tensor) for name, tensor in own_tensors(run.model).items()},
            "optimizer": self._optimizer_state(run.model),
            "generators": {name: digest(state) for name, state in generators.items()},
            "attributes": self._attributes(run.model),
            "outputs": self._outputs,
        }
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self._batches, self._outputs = [], []
        self._reached(update.step)

    def _note_batch(self, model: nn.Module, inputs: tuple[Any, ...]) -> None:
        if model.training:
            (batch,) = inputs
            self._batches.append({"rows": batch.rows, "content": digest(batch)})

    def _listener(self, name: str) -> Callable[[nn.Module, Any, Any], None]:
        def listen(module: nn.Module, inputs: Any, output: Any) -> None:  # noqa: ARG001 (PyTorch's signature)
            if module.training:
                self._outputs.append((name, digest(output)))

        return listen

    def _note_optimizer(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self._optimizer = optimizer

    def _optimizer_state(self, model: nn.Module) -> dict[str, str]:
        if self._optimizer is None:
            return {}
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        found = {}
        for number, group in enumerate(self._optimizer.param_groups):
            for parameter in group["params"]:
                name = names.get(id(parameter), "a parameter")
                for key, value in self._optimizer.state.get(parameter, {}).items():
                    found[f"{key} of {name}"] = digest(value)
            for key in sorted(group.keys() - {"params"}):
                found[f"{key} of group {number}"] = digest(group[key])
        return found

    def _attributes(self, model: nn.Module) -> dict[str, str]:
        found = attributes(self._optimizer, "optimizer") if self._optimizer else {}
        for name, module in model.named_modules():
            found |= attributes(module, name or "the model")
        return found


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
