"""A training in a process of its own, killed after one of its updates; and what it left."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from plugformer import resume, train
from plugformer.errors import PlugformerError
from plugformer.hooks import Update, hookimpl, must_not_fail
from plugformer.registry import Registry

EXIT_WHEN_KILLED = 137
"""The status after SIGKILL. Nothing is saved, nothing is closed."""


class KillAfter:
    """Ends its process after an update, before any evaluation."""

    def __init__(self, update: int | None) -> None:
        self._update = update

    @hookimpl(trylast=True)
    @must_not_fail
    def step_ended(self, update: Update) -> None:
        """Kills the process."""
        if update.step == self._update:
            os._exit(EXIT_WHEN_KILLED)


def train_until(
    task: str, overrides: Sequence[str], manifests: Sequence[Path], run: Path, update: int | None
) -> None:
    """Trains a task, or resumes its run if there is one; what a process of `verify-resume` does."""
    shared: dict[str, Any] = {
        "registry": Registry.discover(*manifests),
        "observers": [KillAfter(update)],
        "notify": lambda _: None,
        "final": "validation",
    }
    try:
        if run.exists():
            resume(run, **shared)
        else:
            train(task, overrides=overrides, out=run, **shared)
    except PlugformerError as error:
        sys.exit(f"Error: {error}")


def first_difference(expected: Path, found: Path) -> str | None:
    """Returns the first thing in which a finished run differs from another, in words."""
    expected_lines, found_lines = _updates(expected), _updates(found)
    for update, line in expected_lines.items():
        for name, value in line.items():
            if found_lines.get(update, {}).get(name) != value:
                return f"{name} of update {update}"
    for file in sorted(expected.glob("checkpoints/*/*.safetensors")):
        tensors = load_file(found / file.relative_to(expected))
        for name, tensor in load_file(file).items():
            if name not in tensors or tensor.numpy().tobytes() != tensors[name].numpy().tobytes():
                return f"{name} in the last checkpoint"
    return None


def _updates(run: Path) -> dict[int, dict[str, Any]]:
    """Returns what was logged of each update, without the speed."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    updates = (line for line in lines if line["event"] == "training")
    return {line.pop("step"): {**line, "tokens_per_second": None} for line in updates}
