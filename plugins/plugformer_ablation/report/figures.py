"""Figures of a study: differences, learning curves, and cost against quality."""

import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator
from pandas import DataFrame, isna

from plugformer_ablation.comparison import Verdict
from plugformer_ablation.findings import LOSS, Findings
from plugformer_ablation.report.text import level_text
from plugformer_reports import page
from plugformer_reports.drawing import BLUE, GRAY, ORANGE, Drawing, looks, panels, rendered
from plugformer_reports.fonts import families_for

_VERDICTS = {Verdict.BETTER: BLUE, Verdict.WORSE: ORANGE}
_COLORS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
"""Colors that people with any color vision tell apart: https://doi.org/10.1038/nmeth.1618."""

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
"""With the colors they tell 63 arms apart."""

_BAR = "#e9ebee"
_NAME = 34  # characters on a line
_WIDTH, _ROW, _REST = 8.4, 0.42, 1.3  # inches of the forest plot
_CURVE, _COST = (2.9, 2.3), (3.6, 2.7)  # inches of a panel
_DECADES = 10.0  # a loss that falls by more is drawn on a logarithmic axis
_LEAST = 6.0  # inches: a single panel of cost is so wide, for the legend below
_ALIKE = 0.01  # relative difference below which a cost is matched
_LEGEND_ROW = 0.2  # inches
_MARK, _LETTER = 0.55, 0.075  # inches that an entry of the legend takes

_COSTS = {
    "parameters": "parameters",
    "flops_per_token": "FLOPs per token, forward",
    "seconds": "training time in seconds",
    "peak_memory_mb": "peak memory in MB",
}


def draw(findings: Findings, notify: Callable[[str], None]) -> tuple[list[str], dict[str, bytes]]:
    """Returns all figures, in HTML for a page and as files by name.

    Args:
        findings: What they show.
        notify: Is told which characters cannot be drawn.
    """
    figures: list[str] = []
    files: dict[str, bytes] = {}
    with looks(families_for([findings.metric, *findings.table["arm"]], notify)):
        for drawing in (*_forest(findings), *_curves(findings), *_cost(findings)):
            svg = rendered(drawing.figure, "svg")
            figures.append(page.figure(drawing, svg))
            files |= {f"{drawing.name}.svg": svg, f"{drawing.name}.png": rendered(drawing.figure, "png")}
    return figures, files


def _forest(findings: Findings) -> Iterator[Drawing]:
    """Yields every difference from the baseline with its intervals, unless there is nothing to compare."""
    shown = [each for each in findings.comparisons if each["difference"] is not None]
    if not shown:
        return
    names = ["\n".join(textwrap.wrap(each["arm"], _NAME)) or each["arm"] for each in shown]
    lines = sum(name.count("\n") for name in names)
    figure, (axes,) = panels(1, 1, (_WIDTH, _REST + _ROW * len(shown) + 0.15 * lines))
    for row, comparison in enumerate(shown):
        _draw_difference(axes, row, comparison)
    axes.axvline(0, color=GRAY, linewidth=0.8, zorder=1)
    axes.set_yticks(range(len(shown)), names)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    side = "right" if findings.record["higher_is_better"] else "left"
    axes.set_xlabel(f"difference in {findings.metric}; better to the {side}")
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    legend: list[Line2D | Patch] = [Line2D([], [], color=GRAY, linewidth=3.5, label="95 %")]
    if len(shown) > 1:
        legend.append(Line2D([], [], color=GRAY, linewidth=1.2, label=level_text(findings)))
    if any(each["minimum_detectable_difference"] is not None for each in shown):
        legend.append(Patch(color=_BAR, label="power below 80 %"))
    figure.legend(handles=legend, loc="outside upper right", ncols=4)
    together = "; the thick line is for a single comparison, the thin one, which decides, for all together"
    caption = (
        "The arm's mean minus the baseline's, over pairs of seeds. The interval covers what seeds and test "
        f"examples leave open{together if len(shown) > 1 else ''}. This study finds a true difference within "
        "the gray bar with a power below 80 %."
    )
    yield Drawing("differences", "Differences from the baseline", caption, figure)


def _draw_difference(axes: Axes, row: int, comparison: Mapping[str, Any]) -> None:
    verdict, reach = comparison["verdict"], comparison["minimum_detectable_difference"]
    color = _VERDICTS.get(verdict, GRAY)
    if reach is not None:
        axes.barh(row, 2 * reach, left=-reach, height=0.7, color=_BAR, zorder=0)
    for interval, width in ((comparison, 1.2), (comparison["interval_95"], 3.5)):
        if interval["low"] is not None:
            ends = (interval["low"], interval["high"])
            axes.plot(ends, (row, row), color=color, linewidth=width, solid_capstyle="butt")
    face = "white" if verdict == Verdict.NONE else color
    axes.plot([comparison["difference"]], [row], "o", color=color, markerfacecolor=face, markersize=7)
    axes.text(1.01, row, verdict, transform=axes.get_yaxis_transform(), va="center", color=color)


def _curves(findings: Findings) -> Iterator[Drawing]:
    """Yields the curves of the validation loss and of the primary metric, as far as they were logged."""
    for name, title in (("loss", LOSS), (findings.metric, findings.metric)):
        bands = {arm: band_of(findings, arm, name) for arm in findings.table["arm"]}
        if any(len(band) > 1 for band in bands.values()):
            yield Drawing(
                f"curves-{'loss' if name == 'loss' else 'metric'}",
                f"While training: {title}",
                "On the validation split. Lines are means over seeds, bands one standard deviation of the "
                "seeds to both sides; the baseline is gray in every panel.",
                _curve_figure(findings, bands, title),
            )


def band_of(findings: Findings, arm: str, name: str) -> DataFrame:
    """Returns an arm's curve: by update, `mean` and `std` over the seeds that were evaluated there."""
    points = DataFrame(
        [
            (point["step"], point["loss"] if name == "loss" else point["metrics"].get(name))
            for cell in findings.results.cells_of(arm)
            for point in cell.curve
        ],
        columns=["step", "value"],
    ).astype({"step": int, "value": float})
    finite = points[np.isfinite(points["value"])]
    return finite.groupby("step")["value"].agg(["mean", "std"]).fillna(0.0)


def _curve_figure(findings: Findings, bands: dict[str, DataFrame], title: str) -> Figure:
    pairs = [(each["arm"], each["baseline"]) for each in findings.comparisons] or [
        (arm, arm) for arm in bands
    ]
    columns = 2 if len(pairs) == 4 else 3
    figure, found = panels(len(pairs), columns, _CURVE, (0.3, 0.3), sharex=True, sharey=True)
    for axes, (arm, baseline) in zip(found, pairs, strict=True):
        for name, color in ((baseline, GRAY), (arm, BLUE)):
            _draw_band(axes, bands[name], color)
        axes.set_title("\n".join(textwrap.wrap(arm, _NAME)))
        axes.xaxis.set_tick_params(labelbottom=True)
    means = [mean for band in bands.values() for mean in band["mean"]]
    if title == LOSS and means and min(means) > 0 and max(means) / min(means) > _DECADES:
        found[0].set_yscale("log")  # all panels share it; bands are shown down to half of the lowest mean
        found[0].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        found[0].set_ylim(bottom=min(means) / 2)
        found[0].yaxis.set_major_formatter("{x:g}")
    figure.supxlabel("update", fontsize=9)
    figure.supylabel(title, fontsize=9)
    return figure


def _draw_band(axes: Axes, band: DataFrame, color: str) -> None:
    steps, means, deviations = band.index.to_numpy(), band["mean"].to_numpy(), band["std"].to_numpy()
    axes.plot(steps, means, color=color, marker="o", markersize=2.5)
    axes.fill_between(steps, means - deviations, means + deviations, color=color, alpha=0.2, linewidth=0)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 5, 10]))


def _cost(findings: Findings) -> Iterator[Drawing]:
    """Yields a panel for each cost in which arms differ; nothing if they cost the same."""
    table = findings.table
    if "score.mean" not in table:
        return
    arms = table[table["score.mean"].notna()]
    shown: list[str] = []
    alike: list[str] = []
    for name in _COSTS:
        low, high = (getattr(arms[f"cost.{name}"], end)() for end in ("min", "max"))
        if high > 0:
            (shown if high - low > _ALIKE * high else alike).append(name)
    if not shown:
        return
    caption = (
        f"Each mark is an arm: the median cost of its cells, and its mean {findings.metric} with the 95 % "
        "interval over seeds."
    )
    if alike:
        caption += f" Within 1 % the same for all arms: {', '.join(_COSTS[name] for name in alike)}."
    yield Drawing("cost", "Cost against quality", caption, _cost_figure(arms, shown, findings.metric))


def _cost_figure(arms: DataFrame, shown: Sequence[str], metric: str) -> Figure:
    panel = _COST if len(shown) > 1 else (_LEAST, _COST[1])
    width = panel[0] * min(2, len(shown))
    entries = max(1, int(width / (_MARK + _LETTER * arms["arm"].map(len).max())))
    legend = 0.4 + _LEGEND_ROW * math.ceil(len(arms) / entries)
    figure, found = panels(len(shown), 2, panel, (0, legend), sharey=True)
    for axes, name in zip(found, shown, strict=True):
        for number, arm in arms.iterrows():
            _draw_cost(axes, arm[f"cost.{name}"], arm, int(number))
        axes.set_xlabel(_COSTS[name])
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
    figure.supylabel(metric, fontsize=9)
    handles, labels = found[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(entries, 4))
    return figure


def _draw_cost(axes: Axes, cost: float, arm: Mapping[str, Any], number: int) -> None:
    mean = arm["score.mean"]
    below, above = (0.0 if isna(arm[end]) else abs(arm[end] - mean) for end in ("score.low", "score.high"))
    axes.errorbar(
        cost,
        mean,
        [[below], [above]],
        fmt=_MARKERS[number % len(_MARKERS)],
        color=_COLORS[number % len(_COLORS)],
        markersize=5,
        elinewidth=0.9,
        label=arm["arm"],
    )
