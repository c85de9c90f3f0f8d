"""What the result of a training depends on."""

from functools import cache
from typing import Any

from plugformer.configuration import ResolvedTask
from plugformer.registry.source import source_hash
from plugformer.runs.initialization import origin
from plugformer.runs.lock import make_lock

_TRAINING = "plugformer.training.train"
"""What it reaches by imports is the part of the core that a result depends on."""


def made_of(resolved: ResolvedTask, data: dict[str, str]) -> dict[str, Any]:
    """Returns what the result of a training depends on besides its task: of equal parts, equal results.

    Args:
        resolved: The task, validated.
        data: A hash of each split's content.

    Returns:
        `versions`, `components`, `hooks` and `data` as in a run's lock; where initial values come from, if
        not from the seed; and the hash of the `core`.
    """
    lock = make_lock(resolved.task, resolved.registry, data)
    return {**lock, **origin(resolved.task), "core": _core()}


@cache
def _core() -> str:
    return source_hash(_TRAINING)
