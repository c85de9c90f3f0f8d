"""The log of a training, and its drawing as curves over the updates."""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from plugformer.runs import RunDirectory
from plugformer_cli.drawing import BLUE, GRAY, ORANGE, Drawing, panels

_NO_CURVES = frozenset({"event", "step", "epoch", "seconds", "best", "tokens_per_second"})
_LINES: dict[str, dict[str, Any]] = {
    "training": {"color": BLUE, "linewidth": 1.0},
    "validation": {"color": ORANGE, "marker": "o", "markersize": 3.5},
    "average": {"color": "black", "marker": "D", "markersize": 4.5, "linestyle": "none"},
}
_DECADES = 100.0  # a loss that falls by more is drawn on a logarithmic axis
_RATE = "learning_rate"

Points = list[tuple[int, float]]
"""Updates and the values measured after them."""


@dataclass(frozen=True)
class History:
    """What was measured during a training, and the update after which validation was best.

    `curves` has the points of each quantity, such as "loss", by event ("training", "validation").
    """

    curves: dict[str, dict[str, Points]]
    best: int | None


def read_history(log: Path) -> History:
    """Reads `metrics.jsonl`; an incomplete last line, which a crash may leave, is ignored."""
    curves: dict[str, dict[str, Points]] = defaultdict(lambda: defaultdict(list))
    best = None
    for record in RunDirectory(log.parent).logged():
        event, step = record["event"], record["step"]
        best = step if record.get("best") is True else best
        for name, value in record.items():
            if name not in _NO_CURVES and isinstance(value, int | float):
                curves[name][event].append((step, float(value)))
    return History({name: dict(events) for name, events in curves.items()}, best)


def draw_history(history: History) -> Iterator[Drawing]:
    """Yields the learning curves, the loss first, and the learning rate, as far as they were logged."""
    names = sorted((name for name in history.curves if name != _RATE), key=lambda name: name != "loss")
    if names:
        caption = (
            "Training: with dropout; the loss is a mean since the point before. Validation: without dropout."
        )
        if history.best is not None:
            caption += f" The dotted line marks update {history.best}, the best by validation."
        yield Drawing("learning-curves", "Learning curves", caption, _figure(history, names))
    if _RATE in history.curves:
        caption = "The learning rate after warm-up and decay of the schedule."
        yield Drawing("learning-rate", "Learning rate", caption, _figure(history, [_RATE]))


def _figure(history: History, names: list[str]) -> Figure:
    columns = 2 if len(names) % 3 else 3  # no panel stays empty where there are three
    figure, grid = panels(len(names), columns, (4.2, 2.9))
    for axes, name in zip(grid, names, strict=True):
        _draw(axes, name, history.curves[name], None if name == _RATE else history.best)
    return figure


def _draw(axes: Axes, name: str, events: dict[str, Points], best: int | None) -> None:
    for event, points in events.items():
        steps, values = zip(*points, strict=True)
        shown = [value if math.isfinite(value) else math.nan for value in values]
        marker = {"marker": "o", "markersize": 2.5} if len(points) == 1 else {}  # else it would not be seen
        axes.plot(steps, shown, label=event, **{**marker, **_LINES.get(event, {})})
    if best is not None:
        axes.axvline(best, color=GRAY, linewidth=1.0, linestyle=":", label="best")
    finite = [value for points in events.values() for _, value in points if math.isfinite(value)]
    if name == "loss" and finite and min(finite) > 0 and max(finite) / min(finite) > _DECADES:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    axes.set_title(name.replace("_", " "))
    axes.set_xlabel("update")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
    if len(events) > 1 or best is not None:
        axes.legend()
