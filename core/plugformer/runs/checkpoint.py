"""Checkpoints: the state from which a training resumes exactly."""

import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import nn

from plugformer.distributed import SINGLE_PROCESS, Processes
from plugformer.errors import RunError, described
from plugformer.interfaces import Callback
from plugformer.reproducibility import CPU, device_type, generator_states, restore_generators
from plugformer.runs.store import (
    join_tensors,
    load_tensors,
    own_tensors,
    read_json,
    replacing,
    restore,
    split_tensors,
    temporary_name,
    write_tensors,
)

Rank = tuple[bool, float, float]
"""Sorts evaluations, the best first."""


@dataclass
class TrainingProgress:
    """How far training has come.

    Attributes:
        epoch: Epoch that the next batch comes from, counted from 0.
        batch: Number of the next batch within its epoch; 0 if data are streamed.
        best: Best value of the monitored metric so far.
        best_rank: What evaluations are compared by, of that one.
        waited: Evaluations since then.
        seconds: Wall time of all updates.
        tokens: Source and target tokens read in all updates.
        unlogged: Sums over the updates since the last line of the log: `loss` in nats over all `targets`,
            `tokens` read and `seconds`.
        skipped: Updates skipped because loss or gradients were not finite.
        skipped_in_a_row: The last of them, without another update in between.
        stream: The place in streamed data, in values of JSON; None if data were prepared.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    best: float | None = None
    best_rank: Rank | None = None
    waited: int = 0
    seconds: float = 0.0
    tokens: int = 0
    unlogged: dict[str, float] = field(default_factory=dict)
    skipped: int = 0
    skipped_in_a_row: int = 0
    stream: Any = None


@dataclass
class TrainingState:
    """Everything that changes during training.

    Attributes:
        optimizer: Its `state_dict` is a collective, and does not depend on the number of processes.
        callbacks: Components that take part, by name.
        gather: Returns the state of a callback with full tensors, where processes hold shards of them.
        scatter: Returns such a state with this process's shards.
        scaler: Finds the factor of float16's gradients.
        device: The device of this process, whose random generator is saved too.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    progress: TrainingProgress = field(default_factory=TrainingProgress)
    callbacks: Mapping[str, Callback] = field(default_factory=dict)
    gather: Callable[[Any], Any] = lambda state: state
    scatter: Callable[[Any], Any] = lambda state: state
    scaler: torch.amp.GradScaler = field(default_factory=lambda: torch.amp.GradScaler("cpu", enabled=False))
    device: torch.device = CPU


def save_checkpoint(
    folder: Path, state: TrainingState, keep: int, processes: Processes = SINGLE_PROCESS
) -> Path:
    """Writes a checkpoint into `folder` and removes all but the newest `keep`; the main process writes.

    Processes have the same state, except for their random generators.

    Raises:
        RunError: The disk is full or cannot be written, and older checkpoints are kept; or the optimizer or a
            callback has a state that no checkpoint can hold.
    """
    parts = {
        "generators": processes.gather(generator_states(state.device)),
        "optimizer": state.optimizer.state_dict(),
        "callbacks": {
            name: state.gather(callback.state_dict()) for name, callback in state.callbacks.items()
        },
        "scaler": state.scaler.state_dict(),
    }
    path = folder / f"step-{state.progress.step:08d}"

    def write() -> None:
        if path.exists():
            return  # saved at this step already: nothing has changed since
        values, tensors = split_tensors(parts, "training")
        record = {"progress": asdict(state.progress), "parts": values}
        with replacing(path) as temporary:
            temporary.mkdir()
            write_tensors(own_tensors(state.model), temporary / "model.safetensors")
            write_tensors(tensors, temporary / "training.safetensors")
            (temporary / "state.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        drop_old(folder, keep)

    processes.on_main(write)
    return path


def drop_old(folder: Path, keep: int) -> None:
    """Removes all checkpoints in `folder` but the newest `keep`."""
    for old in sorted(folder.glob("step-*"))[:-keep]:
        with suppress(OSError):  # the next call tries again
            shutil.rmtree(old.rename(temporary_name(old)))  # no part of it stays under its own name


def load_checkpoint(
    folder: Path, state: TrainingState, notify: Callable[[str], None], processes: Processes = SINGLE_PROCESS
) -> bool:
    """Restores the newest checkpoint in `folder` into a state; returns False if there is none.

    `notify` receives a message if the number of processes or the device is another one.

    Raises:
        RunError: The checkpoint is damaged, or belongs to another model, optimizer or callback.
    """
    path = max(folder.glob("step-*"), default=None)
    if path is None:
        return False
    with processes.raise_everywhere():
        generators = _restore(path, state)
        if processes.index < len(generators):
            restore_generators(generators[processes.index], state.device)
    before = f"{len(generators)} on {device_type(generators[0])}"
    if before != (now := f"{processes.count} on {state.device.type}"):
        notify(f"{path.name}: processes change from {before} to {now}: dropout draws other random numbers")
    return True


def _restore(path: Path, state: TrainingState) -> list[dict[str, Any]]:
    """Restores everything but the random generators; returns the states of these, by process."""
    try:
        model, tensors = (load_tensors(path / f"{name}.safetensors") for name in ("model", "training"))
        record = read_json(path / "state.json")
    except RunError as error:
        advice = f"remove {path} to resume from an earlier checkpoint, if there is one"
        raise RunError(f"{error}\n{advice}") from error
    restore(state.model, model, path / "model.safetensors")
    try:
        parts = join_tensors(record["parts"], tensors)
        vars(state.progress).update(vars(TypeAdapter(TrainingProgress).validate_python(record["progress"])))
        state.optimizer.load_state_dict(parts["optimizer"])
        for name, callback in state.callbacks.items():
            if parts["callbacks"].get(name):
                callback.load_state_dict(state.scatter(parts["callbacks"][name]))
        state.scaler.load_state_dict(parts["scaler"])
        generators: list[dict[str, Any]] = parts["generators"]
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        words = f"{path} belongs to another optimizer, other callbacks or another version: {described(error)}"
        raise RunError(f"{words}. Resume with the components that wrote it, or train again") from error
    return generators
