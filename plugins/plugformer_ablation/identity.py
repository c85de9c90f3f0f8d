"""What a cell is made of: of the same ingredients the same result, which need not be computed twice."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from plugformer.configuration import ResolvedTask, Task, as_dict
from plugformer.runs import made_of

FORMAT = 1
"""Of what a cell keeps beside its run; a new one makes results of older versions unfinished."""

Ingredients = dict[str, Any]
"""`task`, and `versions`, `components`, `hooks`, `data` and `core` that it is trained with."""


def ingredients(resolved: ResolvedTask, data: dict[str, str]) -> Ingredients:
    """Returns what a task's training is made of.

    Args:
        resolved: The task, validated.
        data: A hash of each split's content.
    """
    return {"format": FORMAT, "task": written(resolved.task), **made_of(resolved, data)}


def identity(parts: Ingredients) -> str:
    """Returns a short hash of ingredients."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def written(task: Task) -> dict[str, Any]:
    """Returns a task as its file would say it, without what changes nothing."""
    return {key: value for key, value in as_dict(task).items() if key not in ("description", "registry")}


def changes(before: Ingredients, now: Ingredients) -> list[str]:
    """Returns what differs between ingredients, a line each."""
    old, new = dict(_leaves(before)), dict(_leaves(now))
    return [
        f"{path}: {_short(old.get(path))} -> {_short(new.get(path))}"
        for path in dict.fromkeys([*old, *new])
        if old.get(path) != new.get(path)
    ]


def _leaves(value: Any, path: str = "") -> list[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        return [(path, value)]
    inner = (_leaves(item, f"{path}.{key}" if path else str(key)) for key, item in value.items())
    return [leaf for leaves in inner for leaf in leaves]


def _short(value: object) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:12]}..."
