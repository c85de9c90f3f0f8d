"""Curves over the updates of a training."""

import math
from collections.abc import Iterator
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from plugformer.runs import History
from plugformer_reports.drawing import BLUE, GRAY, ORANGE, Drawing, panels

_LINES: dict[str, dict[str, Any]] = {
    "training": {"color": BLUE, "linewidth": 1.0},
    "validation": {"color": ORANGE, "marker": "o", "markersize": 3.5},
}
_PANEL = (4.2, 2.9)  # inches
_COLUMNS = 2
_DECADES = 100.0  # a loss that falls by more is drawn on a logarithmic axis
_RATE = "learning_rate"


def draw_history(history: History) -> Iterator[Drawing]:
    """Yields the learning curves, the loss first, and the learning rate, as far as they were logged."""
    names = [name for name in history.curves if name not in ("loss", _RATE)]
    names = [*(["loss"] if "loss" in history.curves else []), *names]
    if names:
        caption = "Training: with dropout, the loss as a mean since the point before. Validation: without."
        if history.best is not None:
            caption += f" The dotted line marks update {history.best}, the best by validation."
        yield Drawing("learning-curves", "Learning curves", caption, _panels(history, names))
    if _RATE in history.curves:
        yield Drawing(
            "learning-rate", "Learning rate", "What the schedule made of it.", _panels(history, [_RATE])
        )


def _panels(history: History, names: list[str]) -> Figure:
    figure, found = panels(len(names), _COLUMNS, _PANEL)
    for axes, name in zip(found, names, strict=True):
        _draw(axes, name, history.curves[name], None if name == _RATE else history.best)
    return figure


def _draw(axes: Axes, name: str, events: dict[str, list[tuple[int, float]]], best: int | None) -> None:
    for event, points in events.items():
        steps, values = zip(*points, strict=True)
        shown = [value if math.isfinite(value) else math.nan for value in values]
        axes.plot(steps, shown, label=event, **_LINES.get(event, {}))
    if best is not None:
        axes.axvline(best, color=GRAY, linewidth=1.0, linestyle=":")
    finite = [value for points in events.values() for _, value in points if math.isfinite(value)]
    if name == "loss" and finite and min(finite) > 0 and max(finite) / min(finite) > _DECADES:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    axes.set_title(name.replace("_", " "))
    axes.set_xlabel("update")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
    if len(events) > 1:
        axes.legend()
