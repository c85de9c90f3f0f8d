"""Learning curves of each arm beside its baseline's, with bands over seeds."""

import math
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator

from plugformer_ablation.findings import LOSS, ArmFinding, Findings
from plugformer_ablation.results import Point
from plugformer_reports.drawing import BLUE, GRAY, Drawing

_COLUMNS = 3
_PANEL = (2.9, 2.3)  # inches
_DECADES = 10.0  # a loss that falls by more is drawn on a logarithmic axis
_TITLE = 34  # characters on a line


class Band(NamedTuple):
    """A figure over the updates of a training: mean, and one standard deviation to both sides, over seeds."""

    steps: list[int]
    means: np.ndarray
    deviations: np.ndarray


def draw_curves(findings: Findings) -> Iterator[Drawing]:
    """Yields the curves of the validation loss and of the primary metric, as far as they were logged."""
    for name, title in (("loss", LOSS), (findings.metric, findings.metric)):
        bands = {arm.arm.name: band_of(arm, name) for arm in findings.arms}
        if any(len(band.steps) > 1 for band in bands.values()):
            yield Drawing(
                f"curves-{'loss' if name == 'loss' else 'metric'}",
                f"While training: {title}",
                "On the validation split. Lines are means over seeds, bands one standard deviation of the "
                "seeds to both sides; the baseline is gray in every panel.",
                _figure(findings, bands, title),
            )


def band_of(arm: ArmFinding, name: str) -> Band:
    """Returns the curve of an arm; at each update over the seeds that were evaluated there."""
    values: dict[int, list[float]] = defaultdict(list)
    for cell in arm.cells:
        for point in cell.curve:
            value = _value(point, name)
            if value is not None and math.isfinite(value):
                values[int(point["step"])].append(value)
    steps = sorted(values)
    spread = [np.std(values[step], ddof=1) if len(values[step]) > 1 else 0.0 for step in steps]
    return Band(steps, np.array([np.mean(values[step]) for step in steps]), np.array(spread))


def _value(point: Point, name: str) -> float | None:
    found = point["loss"] if name == "loss" else point["metrics"].get(name)
    return float(found) if isinstance(found, int | float) else None


def _figure(findings: Findings, bands: dict[str, Band], title: str) -> Figure:
    pairs = [(each.arm, each.baseline) for each in findings.comparisons] or [
        (arm.arm.name, arm.arm.name) for arm in findings.arms
    ]
    columns = 2 if len(pairs) == 4 else min(_COLUMNS, len(pairs))
    rows = math.ceil(len(pairs) / columns)
    figure = Figure(figsize=(columns * _PANEL[0] + 0.3, rows * _PANEL[1] + 0.3), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).flat)
    for axes, (arm, baseline) in zip(panels, pairs, strict=False):
        for name, colour in ((baseline, GRAY), (arm, BLUE)):
            _draw(axes, bands[name], colour)
        axes.set_title("\n".join(textwrap.wrap(arm, _TITLE)))
        axes.xaxis.set_tick_params(labelbottom=True)
    for axes in panels[len(pairs) :]:
        axes.remove()
    _scale(panels[0], list(bands.values()), logarithmic=title == LOSS)
    figure.supxlabel("update", fontsize=9)
    figure.supylabel(title, fontsize=9)
    return figure


def _draw(axes: Axes, band: Band, colour: str) -> None:
    axes.plot(band.steps, band.means, color=colour, marker="o", markersize=2.5)
    axes.fill_between(
        band.steps,
        band.means - band.deviations,
        band.means + band.deviations,
        color=colour,
        alpha=0.2,
        linewidth=0,
    )
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 5, 10]))
    axes.grid(visible=True)
    axes.spines[["top", "right"]].set_visible(False)


def _scale(axes: Axes, bands: Sequence[Band], *, logarithmic: bool) -> None:
    """Sets the axis that all panels share; a logarithmic one shows bands down to half of the lowest mean."""
    means = np.concatenate([band.means for band in bands])
    if logarithmic and len(means) and means.min() > 0 and means.max() / means.min() > _DECADES:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.set_ylim(bottom=means.min() / 2)
        axes.yaxis.set_major_formatter("{x:g}")
