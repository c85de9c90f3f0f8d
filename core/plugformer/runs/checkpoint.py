"""Checkpoints: everything that training needs to go on as if nothing had happened."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from pydantic import ConfigDict, TypeAdapter
from torch import Tensor, nn

from plugformer.data.streaming import StreamPosition
from plugformer.distributed import SINGLE_PROCESS, Processes
from plugformer.errors import RunError
from plugformer.generators import CPU, device_type, generator_states, restore_generators
from plugformer.runs.files import read_json, remove_folder, replacing, verify_checksums, write_checksums
from plugformer.runs.weights import (
    join_tensors,
    load_tensors,
    own_tensors,
    restore,
    split_tensors,
    write_tensors,
)

_NUMBERS = TypeAdapter(dict[str, int | float])


@dataclass
class Unlogged:
    """Sums over the updates since the last line of the log.

    Attributes:
        loss: Of all targets, in nats.
        targets: Their number.
        tokens: Real source and target tokens read.
        seconds: Wall time.
    """

    loss: float = 0.0
    targets: int = 0
    tokens: int = 0
    seconds: float = 0.0


@dataclass
class Progress:
    """How far training has come.

    Attributes:
        step: Updates made.
        epoch: Epoch that the next batch comes from, counted from 0.
        batch: Number of the next batch within its epoch; 0 if data are streamed.
        best: Best value of the monitored figure so far.
        best_loss: The validation loss beside it, which decides between equals.
        waited: Evaluations since then.
        seconds: Wall time of all updates.
        unlogged: What the next line of the log is made of.
        skipped: Updates left out because loss or gradients were not finite.
        skipped_in_a_row: How many of them came last, one after the other.
        places: The places in streamed data, one for each batch of an update; none if data were prepared.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    step: int = 0
    epoch: int = 0
    batch: int = 0
    best: float | None = None
    best_loss: float | None = None
    waited: int = 0
    seconds: float = 0.0
    unlogged: Unlogged = field(default_factory=Unlogged)
    skipped: int = 0
    skipped_in_a_row: int = 0
    places: list[StreamPosition] = field(default_factory=list)


class Stateful(Protocol):
    """What has a state, as PyTorch's objects have."""

    def state_dict(self) -> Mapping[str, Any]:
        """Returns tensors, numbers, texts, and lists, tuples and mappings of them."""

    def load_state_dict(self, state: Mapping[str, Any]) -> object:
        """Goes on from what `state_dict` returned."""


@dataclass
class TrainingState:
    """What moves while training: the model, the optimizer, hooks, the scaler, random generators and progress.

    Attributes:
        model: With all its parameters.
        optimizer: Its `state_dict` is the same however many processes train; all call it together.
        progress: How far training has come.
        hooks: Those that take part, by name; states are as the optimizer's.
        scaler: Finds the factor of float16's gradients, a few numbers; None with other formats.
        device: The one that this process computes on, and draws random numbers from.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    progress: Progress = field(default_factory=Progress)
    hooks: Mapping[str, Stateful] = field(default_factory=dict)
    scaler: Stateful | None = None
    device: torch.device = CPU


def save_checkpoint(
    folder: Path, state: TrainingState, keep: int, processes: Processes = SINGLE_PROCESS
) -> Path:
    """Writes a checkpoint into `folder` and removes all but the newest `keep`.

    Args:
        folder: Where the checkpoints are.
        state: The same in all processes, but for their generators.
        keep: Number of checkpoints.
        processes: Those that train; one of them writes.

    Raises:
        RunError: The disk is full or the place cannot be written, and older checkpoints are kept; or the
            optimizer or a hook keeps what no checkpoint can hold.
    """
    generators = processes.gather(generator_states(state.device))
    optimizer = state.optimizer.state_dict()
    hooks = {name: hook.state_dict() for name, hook in state.hooks.items()}
    return processes.on_main(lambda: _write(folder, state, keep, optimizer, hooks, generators))


def _write(
    folder: Path,
    state: TrainingState,
    keep: int,
    optimizer_state: Mapping[str, Any],
    hook_states: Mapping[str, Mapping[str, Any]],
    generators: Sequence[Mapping[str, Tensor]],
) -> Path:
    path = folder / f"step-{state.progress.step:08d}"
    if path.exists():
        return path  # saved at this step already: nothing has moved since
    optimizer, tensors = split_tensors(optimizer_state, "optimizer")
    for process, states in enumerate(generators):
        tensors |= {_rank_prefix(process) + name: tensor for name, tensor in states.items()}
    hooks = {name: split_tensors(kept, f"hook {name}") for name, kept in hook_states.items() if kept}
    with replacing(path) as temporary:
        temporary.mkdir()
        write_tensors(own_tensors(state.model), temporary / "model.safetensors")
        write_tensors(tensors, temporary / "optimizer.safetensors")
        record = {"progress": asdict(state.progress), "optimizer": optimizer, "processes": len(generators)}
        if hooks:
            record["hooks"] = {name: kept for name, (kept, _) in hooks.items()}
            kept_tensors = {key: tensor for _, own in hooks.values() for key, tensor in own.items()}
            write_tensors(kept_tensors, temporary / "hooks.safetensors")
        if state.scaler is not None:
            record["scaler"] = dict(state.scaler.state_dict())
        (temporary / "state.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        write_checksums(temporary)
    drop_old(folder, keep)
    return path


def newest_step(folder: Path) -> int:
    """Returns the updates made before the newest checkpoint in `folder`; 0 if there is none."""
    numbers = (path.name.removeprefix("step-") for path in folder.glob("step-*"))
    return max((int(number) for number in numbers if number.isdecimal() and len(number) < 20), default=0)


def drop_old(folder: Path, keep: int) -> None:
    """Removes all checkpoints in `folder` but the newest `keep`."""
    for old in sorted(folder.glob("step-*"))[:-keep]:
        with suppress(OSError):  # what cannot be removed now is removed after the next one
            remove_folder(old)


def load_checkpoint(
    folder: Path, state: TrainingState, notify: Callable[[str], None], processes: Processes = SINGLE_PROCESS
) -> bool:
    """Restores the newest checkpoint in `folder` that is as it was written; returns False if there is none.

    Args:
        folder: Where the checkpoints are. Damaged ones that are newer than a good one are renamed, so that
            they are out of the way and can be looked at.
        state: Restored in place.
        notify: Receives a message about each that is damaged, and about other processes or another device.
        processes: Those that train.

    Raises:
        RunError: All are damaged, or the newest good one belongs to another model or optimizer.
    """
    path = processes.on_main(lambda: _newest_good(folder, notify))
    if path is None:
        return False
    with processes.raise_everywhere():
        saved, device = _restore(path, state, processes.index)
    if saved != processes.count:
        notify(
            f"{path.name} was written by {_counted(saved)} and is continued by {processes.count}: "
            "the batches are the same, random numbers such as those of dropout are others"
        )
    if device != state.device.type:
        notify(
            f"{path.name} was written by a training on {device}, which continues on {state.device.type}: "
            "random numbers such as those of dropout are others, and sums are rounded differently"
        )
    return True


def _counted(processes: int) -> str:
    return "one process" if processes == 1 else f"{processes} processes"


def _newest_good(folder: Path, notify: Callable[[str], None]) -> Path | None:
    faults: dict[Path, str] = {}
    for path in sorted(folder.glob("step-*"), reverse=True):
        try:
            verify_checksums(path)
        except RunError as error:
            faults[path] = str(error)
            continue
        for damaged, fault in faults.items():
            aside = _set_aside(damaged)
            notify(f"{fault}\n  going on from {path.name}, the last good one; {aside} can be removed")
        return path
    if faults:
        raise RunError(
            f"every checkpoint in {folder} is damaged: take one from a backup, or train again\n"
            + "\n".join(faults.values())
        )
    return None


def _restore(path: Path, state: TrainingState, process: int) -> tuple[int, str]:
    """Restores everything but generators that no process had.

    Returns:
        The number of processes there were, and the type of their devices.
    """
    restore(state.model, load_tensors(path / "model.safetensors"), path / "model.safetensors")
    tensors = load_tensors(path / "optimizer.safetensors")
    record = read_json(path / "state.json")
    try:
        state.progress = TypeAdapter(Progress).validate_json(json.dumps(record["progress"]), strict=True)
        _refuse_impossible(state.progress, path)
        optimizer = join_tensors(record["optimizer"], tensors)
        _refuse_other_settings(state.optimizer, optimizer["param_groups"])
        state.optimizer.load_state_dict(optimizer)
        states = record.get("hooks", {})
        kept = load_tensors(path / "hooks.safetensors") if states else {}
        for name, hook in state.hooks.items():
            if name in states:
                hook.load_state_dict(join_tensors(states[name], kept))
        if state.scaler is not None:
            state.scaler.load_state_dict(_NUMBERS.validate_python(record["scaler"], strict=True))
        saved = int(record["processes"])
        if process < saved:
            restore_generators(_generators_of(process, tensors), state.device)
    except (AttributeError, LookupError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise RunError(
            f"{path} belongs to another optimizer, other hooks or another version: {type(error).__name__}: "
            f"{error}. Go on with what it was written with, or train again"
        ) from error
    return saved, device_type(tensors)


def _refuse_impossible(progress: Progress, path: Path) -> None:
    """Raises ValueError where no training can have come that far."""
    if path.name != f"step-{progress.step:08d}":
        raise ValueError(f"step is {progress.step}, expected that of the folder")
    for name in ("epoch", "batch", "waited", "skipped", "skipped_in_a_row"):
        if (count := getattr(progress, name)) < 0:
            raise ValueError(f"{name} is {count}, expected at least 0")


def _generators_of(process: int, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns the states of a process's generators by their own names."""
    prefix = _rank_prefix(process)
    return {name.removeprefix(prefix): tensors[name] for name in tensors if name.startswith(prefix)}


def _rank_prefix(process: int) -> str:
    """Returns the prefix of the names of a process's generators."""
    return f"process/{process}/" if process else ""


def _refuse_other_settings(optimizer: torch.optim.Optimizer, saved: list[dict[str, Any]]) -> None:
    """Raises TypeError where a saved setting, such as the learning rate, is not of the type of the own."""
    for own, group in zip(optimizer.param_groups, saved, strict=True):
        for name in (own.keys() & group.keys()) - {"params"}:
            if _kind(group[name]) is not _kind(own[name]):
                raise TypeError(f"{name} is {group[name]!r}, expected a value like {own[name]!r}")


def _kind(value: object) -> type:
    return float if type(value) is int else type(value)


def _set_aside(path: Path) -> Path:
    """Renames a damaged checkpoint; returns its new name."""
    aside = path.with_name(f"damaged-{path.name}")
    try:
        if aside.exists():
            shutil.rmtree(aside)
        return path.rename(aside)
    except OSError as error:
        raise RunError(
            f"{path} is damaged and cannot be renamed: {error.strerror or error}; make {path.parent} writable"
        ) from error
