"""What a training wrote about itself, as curves over its updates."""

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plugformer.errors import RunError
from plugformer.runs import RESTORE, read_file

_NO_CURVES = frozenset({"event", "step", "epoch", "seconds", "best", "tokens_per_second"})

Points = list[tuple[int, float]]
"""Updates and the figures measured after them."""


@dataclass(frozen=True)
class History:
    """What was measured while training.

    Attributes:
        curves: For each figure by name, such as "loss", and each event ("training", "validation") its points;
            in the order of the log.
        best: The update after which the validation was best; None before the first evaluation.
    """

    curves: dict[str, dict[str, Points]]
    best: int | None


def read_history(log: Path) -> History:
    """Reads `metrics.jsonl`; half a line at its end, which a crash may leave, is passed over.

    Raises:
        RunError: It is missing or damaged.
    """
    curves: dict[str, dict[str, Points]] = defaultdict(lambda: defaultdict(list))
    best = None
    for number, line in enumerate(_lines(log), start=1):
        try:
            record: dict[str, Any] = json.loads(line)
            event, step = str(record["event"]), int(record["step"])
            figures = {name: float(value) for name, value in record.items() if isinstance(value, int | float)}
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise RunError(
                f"{log}:{number} is damaged: expected a JSON object with event and step, got "
                f"{line.strip()[:60]!r}; {RESTORE}"
            ) from error
        best = step if record.get("best") is True else best
        for name, value in figures.items():
            if name not in _NO_CURVES:
                curves[name][event].append((step, value))
    return History({name: dict(events) for name, events in curves.items()}, best)


def _lines(log: Path) -> list[str]:
    try:
        lines = read_file(log).decode().splitlines(keepends=True)
    except UnicodeDecodeError as error:
        raise RunError(f"{log} cannot be read: {error}; {RESTORE}") from error
    return [line for line in lines if line.endswith("\n")]
