"""Where two recordings of one training differ first, and what probably causes it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
