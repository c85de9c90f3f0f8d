"""The lock of a run: what exactly it was made of, and where."""

import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import plugformer
from plugformer.configuration.task import Component, Task
from plugformer.errors import RunError
from plugformer.experiment import NO_POSITION, Experiment
from plugformer.registry import Kind
from plugformer.registry.source import BLOCKS, code_hash, component_lock
from plugformer.runs.other_runs import origin

LIBRARIES = ("accelerate", "datasets", "numpy", "pyarrow", "safetensors", "tokenizers")
"""What computes beside torch, whose version stands among those that are compared."""


def make_lock(experiment: Experiment, data: dict[str, str]) -> dict[str, Any]:
    """Returns the lock of a task.

    Installed modules of hooks are not in it, because they do not change the result: `training_strategy` and
    `output_pattern` only compute it in another way.

    Args:
        experiment: The task with the registry of its components.
        data: A fingerprint of each split.
    """
    return {
        "versions": {
            "plugformer": plugformer.__version__,
            "python": platform.python_version(),
            "torch": str(torch.__version__),
        },
        "components": {
            f"{kind}/{name}": component_lock(kind, name, experiment.registry)
            for kind, name in sorted(components(experiment.task))
        },
        "data": data,
    }


def components(task: Task) -> set[tuple[Kind, str]]:
    """Returns kind and name of every component that a task uses."""
    model, training = task.model, task.training
    blocks: list[tuple[Kind, Component]] = [
        (Kind.TASK_TYPE, task.type),
        (Kind.ARCHITECTURE, model.architecture),
        (Kind.DATA, task.data),
        (Kind.TOKENIZER, task.tokenizer.source),
        (Kind.TOKENIZER, task.tokenizer.target),
        (Kind.OPTIMIZER, training.optimizer),
        (Kind.SCHEDULE, training.schedule),
        (Kind.DECODING, task.decoding),
        (Kind.HEAD, model.head),
        (Kind.INITIALIZATION, model.initialization),
        (Kind.POSITION, model.decoder.cross_attention.position or NO_POSITION),
        *((Kind.METRIC, block) for block in task.evaluation.metrics),
        *((Kind.HOOK, block) for block in training.hooks),
    ]
    stacks = (model, model.encoder, model.decoder, model.decoder.cross_attention)
    layers = (*model.encoder.per_layer.values(), *model.decoder.per_layer.values())
    for place in (*stacks, *layers):
        for kind in (Kind.POSITION, Kind.ATTENTION, Kind.FEED_FORWARD, Kind.NORM, Kind.RESIDUAL):
            if (block := getattr(place, kind, None)) is not None:
                blocks.append((kind, block))
    return {(kind, block.name) for kind, block in blocks}


def differences(old: dict[str, Any], new: dict[str, Any], part: str) -> list[str]:
    """Returns the changes between a part of two locks, one line each."""
    before, now = old.get(part, {}), new.get(part, {})
    return [
        f"{name}: {_show(before.get(name))} -> {_show(now.get(name))}"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    ]


def refuse_changes(old: dict[str, Any], new: dict[str, Any], *, allow: bool = False) -> list[str]:
    """Compares the lock of a run with that of the installed components.

    Args:
        old: The run's.
        new: What is installed now.
        allow: Let components differ; the data never may, because a place in them would mean other examples.

    Returns:
        The differences that were let pass.

    Raises:
        RunError: A component or the data changed since the run began.
    """
    parts, data = differences(old, new, "components"), differences(old, new, "data")
    if not data and (allow or not parts):
        return parts
    advice = "put them back to resume exactly, or begin a new run"
    if not data:
        advice += "; --allow-changes goes on all the same"
    lines = ["the run was begun with other components or data:", *(f"  {line}" for line in (*parts, *data))]
    raise RunError("\n".join([*lines, advice]))


def _show(value: object) -> str:
    if isinstance(value, dict):
        return f"{value['distribution']} {value['version']} ({value['source'][:12]})"
    return "nothing" if value is None else str(value)[:12]


def environment(device: torch.device, processes: int, precision: str) -> dict[str, Any]:
    """Returns device, threads, precision, versions of what computes, system and processor.

    It is noted for people; nothing is compared with it.

    Args:
        device: Of this process.
        processes: How many train together.
        precision: As `training.precision` names it.
    """
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "processes": processes,
        "threads": torch.get_num_threads(),
        "precision": precision,
        "versions": {name: metadata.version(name) for name in LIBRARIES},
        "system": platform.platform(),
        "processor": _processor(),
    }


def _processor() -> str:
    """Returns the processor's name as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # it is Linux that has this file
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def made_of(experiment: Experiment, data: dict[str, str]) -> dict[str, Any]:
    """Returns everything besides the task that a training's result depends on.

    Args:
        experiment: The experiment.
        data: A hash of each split's content.

    Returns:
        `versions`, `components` and `data` as in a run's lock; where initial values come from, if not from
        the seed; and a hash of the `code` of the core, and of the packages that the components lie in.
    """
    lock = make_lock(experiment, data)
    used = sorted(components(experiment.task))
    entries = [experiment.registry.find(kind, name) for kind, name in used]
    return {**lock, **origin(experiment.task), "code": code_hash(entries, plugformer.__name__, BLOCKS)}
