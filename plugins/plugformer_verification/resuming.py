"""Verifying that resuming is exact: one training uninterrupted, and once more killed and resumed."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from plugformer.configuration import Mapping, Node, read_overrides, resolve
from plugformer.errors import ConfigurationError
from plugformer.registry import Registry
from plugformer.validation import validate
from plugformer_verification.segment import TrainingSegment

_EVALUATIONS = 4
"""In a short training, unless the user says otherwise: each saves a checkpoint."""

_PARTS = ("batches", "learning rate", "loss", "parameters", "optimizer", "generators")
"""What must be equal after every update, in the order in which an update computes it."""

_MOST = 5
"""Causes that are named."""


@dataclass(frozen=True)
class Difference:
    """The first difference between an uninterrupted training and one that was resumed.

    Attributes:
        step: The update that shows it.
        resumed_after: The update after which the process that made it had resumed; 0 for none.
        part: What differs: batches, learning rate, loss, parameters, optimizer or generators.
        name: Which of them, the first.
        others: How many more of them differ.
        expected: Its value, or a digest, in the uninterrupted training.
        found: The same in the other.
        output: The first module whose output differs in that update; empty if none does.
        attributes: What modules and the optimizer keep in Python and have otherwise than in the uninterrupted
            training: name, value there, value here.
    """

    step: int
    resumed_after: int
    part: str
    name: str
    others: int
    expected: str
    found: str
    output: str
    attributes: tuple[tuple[str, str, str], ...]


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
    settings = read_overrides(overrides)
    if _says(settings, "training.steps") or _says(settings, "training.epochs"):
        raise ConfigurationError("--set training.steps is not for a verification: give --steps instead")
    return [*overrides, *(f"{key}={value}" for key, value in short.items() if not _says(settings, key))]


def _says(settings: Node, key: str) -> bool:
    """Returns whether settings hold a key, be it written as `training.steps=5` or `training={steps: 5}`."""
    found: Node | None = settings
    for name in key.split("."):
        found = found.items.get(name) if isinstance(found, Mapping) else None
    return found is not None


def first_difference(expected: Path, found: Path) -> Difference | None:
    """Compares recordings.

    Args:
        expected: The recording of the uninterrupted training.
        found: The other's, with all its segments.
    """
    whole = {line["step"]: line for line in _lines(expected)}
    resumed: dict[int, int] = {}
    differences = []
    for line in _lines(found):
        resumed.setdefault(line["segment"], line["step"] - 1)
        if difference := _compare(whole[line["step"]], line, resumed[line["segment"]]):
            differences.append(difference)
    return min(differences, key=lambda difference: difference.step, default=None)


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _compare(expected: dict[str, Any], found: dict[str, Any], resumed_after: int) -> Difference | None:
    for part in _PARTS:
        mine, yours = expected[part], found[part]
        names = [name for name in {**mine, **yours} if mine.get(name) != yours.get(name)]
        if names:
            name = names[0]
            return Difference(
                step=found["step"],
                resumed_after=resumed_after,
                part=part,
                name=name,
                others=len(names) - 1,
                expected=str(mine.get(name, "missing")),
                found=str(yours.get(name, "missing")),
                output=_first_output(expected["outputs"], found["outputs"]),
                attributes=_changed(expected["attributes"], found["attributes"]),
            )
    return None


def _first_output(expected: list[list[str]], found: list[list[str]]) -> str:
    return next((mine[0] for mine, yours in zip(expected, found, strict=False) if mine != yours), "")


def _changed(expected: dict[str, str], found: dict[str, str]) -> tuple[tuple[str, str, str], ...]:
    changed = (
        (name, value, found[name]) for name, value in expected.items() if found.get(name, value) != value
    )
    return tuple(changed)[:_MOST]
