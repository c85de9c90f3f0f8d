"""Verifying that resuming is exact: one training uninterrupted, and once more killed and resumed."""

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError
from plugformer.registry import Registry
from plugformer.validation import validate
from plugformer_verification.comparison import Difference, first_difference
from plugformer_verification.segment import TrainingSegment

_EVALUATIONS = 4
"""In a short training, unless the user says otherwise: each saves a checkpoint."""


@dataclass(frozen=True)
class Verification:
    """What came out.

    Attributes:
        task: What was trained.
        steps: Updates of the training.
        killed: Updates after which it was killed.
        difference: The first difference to the uninterrupted training; None if there is none.
        repeatable: Whether two uninterrupted trainings are equal; None if that was not asked, because a
            resumed one is.
    """

    task: str
    steps: int
    killed: tuple[int, ...]
    difference: Difference | None
    repeatable: bool | None

    def as_json(self) -> dict[str, Any]:
        """Returns it for scripts."""
        return {**asdict(self), "exact": self.difference is None}


def verify_resuming(
    task: str,
    *,
    overrides: Sequence[str] = (),
    steps: int = 20,
    kills: int = 3,
    registry: Registry | None = None,
    notify: Callable[[str], None] = print,
) -> Verification:
    """Trains shortly and uninterrupted, then the same again, killed at random updates and resumed; compares.

    Args:
        task: Name of a task, or a task file.
        overrides: `KEY=VALUE` settings on top of the task. Without `training.evaluate_every` there are four
            evaluations, each with a checkpoint, and without `evaluation.limit` on eight examples.
        steps: Updates.
        kills: How often the training is killed, at least once.
        registry: What is installed; discovered if None.
        notify: Receives messages for people, a line each.

    Raises:
        ConfigurationError: The task or an override is wrong, or there are more kills than places for them.
        DataError: The examples cannot be read.
        RunError: The training fails by itself.
    """
    settings = _short(overrides, steps)
    resolved = validate(resolve(task, settings, registry))
    every = resolved.task.training.evaluate_every or steps
    first = min(every, steps - 1) + 1  # before that update there is no checkpoint to go on from
    if not 1 <= kills <= steps - first + 1:
        raise ConfigurationError(
            f"{kills} kills do not fit into updates {first} to {steps}, the ones after a checkpoint: "
            f"expected 1 to {steps - first + 1}; give more --steps"
        )
    killed = tuple(sorted(random.SystemRandom().sample(range(first, steps + 1), kills)))
    with TemporaryDirectory(prefix="plugformer-") as folder:

        def record(name: str, ends: Sequence[int | None]) -> Path:
            recording = Path(folder, f"{name}.jsonl")
            for number, until in enumerate(ends):
                TrainingSegment(
                    task, settings, resolved.registry.local, Path(folder, name), recording, number, until
                ).train()
            return recording

        notify(f"training {steps} updates uninterrupted")
        expected = record("uninterrupted", [None])
        notify(f"training them again, killed after updates {', '.join(map(str, killed))}")
        difference = first_difference(expected, record("resumed", [*killed, None]))
        repeatable = None
        if difference is not None:
            notify("there is a difference; training once more uninterrupted, to see whether that is equal")
            repeatable = first_difference(expected, record("again", [None])) is None
    return Verification(task, steps, killed, difference, repeatable)


def _short(overrides: Sequence[str], steps: int) -> list[str]:
    """Returns the settings of a short training; the user's go first."""
    short = {
        "training.steps": steps,
        "training.evaluate_every": max(1, steps // _EVALUATIONS),
        "evaluation.limit": 8,
    }
    given = {override.partition("=")[0].strip() for override in overrides}
    if "training.steps" in given or "training.epochs" in given:
        raise ConfigurationError("--set training.steps is not for a verification: give --steps instead")
    return [*overrides, *(f"{key}={value}" for key, value in short.items() if key not in given)]
