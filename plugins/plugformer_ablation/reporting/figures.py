"""Figures of a study: differences and learning curves."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from plugformer_ablation.design.arms import TASK
from plugformer_ablation.judging.comparison import Verdict
from plugformer_ablation.judging.findings import LOSS, Findings
from plugformer_ablation.judging.results import Record
from plugformer_ablation.reporting.cost_figures import (
    VERDICTS,
    against_operations,
    by_cost,
    curves_of,
    drawing,
    label_updates,
    over_scales,
    over_training,
    power_laws,
    wrapped,
)
from plugformer_ablation.reporting.sentences import percent
from plugformer_cli.drawing import BLUE, GRAY, Drawing, drawing_style, panels

_BAND = "#e9ebee"
_ROWS, _PANELS = 40, 24  # of arms, as many as a figure can show
_TUNED = 10  # arms in a figure of what was tried


@contextmanager
def draw(findings: Findings, notify: Callable[[str], None]) -> Iterator[Iterator[Drawing]]:
    """Yields all figures, in a style that holds until the context is left."""
    with drawing_style([findings.metric, *(arm["arm"] for arm in findings.record["arms"])], notify):
        shown, omitted = _selected(findings, _PANELS)
        yield chain(
            _differences(findings),
            against_operations(findings),
            over_scales(findings),
            power_laws(findings),
            _tuning(findings),
            _curves(findings),
            over_training(findings, shown, omitted),
            by_cost(findings, shown),
        )


def _differences(findings: Findings) -> Iterator[Drawing]:
    """Yields a forest plot for each task: every difference from the baseline with its intervals."""
    shown, omitted = _selected(findings, _ROWS)
    tasks = {name: arm["values"].get(TASK, "") for name, arm in findings.arms.items()}
    for task in dict.fromkeys(tasks[comparison["arm"]] for comparison in shown):
        of_task = [comparison for comparison in shown if tasks[comparison["arm"]] == task]
        yield _forest(findings, of_task, task, omitted)


def _forest(findings: Findings, shown: Sequence[Record], task: str, omitted: str) -> Drawing:
    names = [wrapped(comparison["arm"]) for comparison in shown]
    lines = sum(name.count("\n") for name in names)
    figure, (axes,) = panels(1, 1, (8.4, 1.3 + 0.42 * len(shown) + 0.15 * lines))
    for row, comparison in enumerate(shown):
        _draw_difference(axes, row, comparison)
        of_seeds = _of_seeds(findings, comparison)
        axes.plot(of_seeds, [row + 0.22] * len(of_seeds), ".", color=GRAY, markersize=4, alpha=0.7)
    axes.axvline(0, color=GRAY, linewidth=0.8, zorder=1)
    axes.set_yticks(range(len(shown)), names)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    side = "right" if shown[0]["higher_is_better"] else "left"
    axes.set_xlabel(f"difference in {shown[0]['metric']}; better to the {side}")
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    levels = {percent(comparison["level"]) for comparison in shown}
    legend: list[Artist] = [
        Line2D([], [], color=GRAY, linewidth=3.5, label="95 %"),
        Line2D([], [], color=GRAY, linewidth=1.2, label=levels.pop() if len(levels) == 1 else "corrected"),
        Line2D([], [], color=GRAY, linestyle="", marker=".", label="a pair of seeds"),
    ]
    if shown[0]["smallest_effect"] is not None:
        legend.append(Patch(color=_BAND, label="less than what matters"))
    figure.legend(handles=legend, loc="outside upper right", ncols=4)
    caption = (
        "The arm's mean minus the baseline's, over pairs of seeds. The interval covers the variation over "
        "seeds and test examples; the thick line is for a single comparison, the thin line, which decides, "
        "for all."
    )
    if all(comparison["pairs"] == 1 for comparison in shown):
        caption = (
            "The arm's score minus the baseline's. The interval covers test examples alone, and decides "
            "nothing; the thick line is for a single comparison, the thin line for all."
        )
    return drawing("differences", "Differences from the baseline", task, caption + omitted, figure)


def _selected(findings: Findings, most: int) -> tuple[list[Record], str]:
    """Returns the comparisons that a figure has room for, and a sentence for its caption if some are omitted.

    Those with a verdict come first, then those with the largest difference.
    """
    known = [comparison for comparison in findings.comparisons if comparison["difference"] is not None]

    def rank(comparison: Record) -> tuple[bool, float]:
        return comparison["verdict"] not in VERDICTS, -abs(comparison["difference"])

    chosen = {comparison["arm"] for comparison in sorted(known, key=rank)[:most]}
    shown = [comparison for comparison in known if comparison["arm"] in chosen]
    omitted = f" Of {len(known)} arms, {most} are shown: those with a verdict or the largest difference."
    return shown, omitted if len(known) > most else ""


def _of_seeds(findings: Findings, comparison: Record) -> list[float]:
    """Returns the difference of each pair of seeds, as far as they are finite."""
    ours, theirs = (
        {cell.seed: cell.metrics.get(comparison["metric"], np.nan) for cell in findings.results.cells_of(arm)}
        for arm in (comparison["arm"], comparison["baseline"])
    )
    differences = (ours[seed] - theirs[seed] for seed in ours.keys() & theirs.keys())
    return [difference for difference in differences if np.isfinite(difference)]


def _draw_difference(axes: Axes, row: int, comparison: Mapping[str, Any]) -> None:
    verdict = comparison["verdict"]
    color, margin = VERDICTS.get(verdict, GRAY), comparison["smallest_effect"]
    if margin is not None:
        axes.barh(row, 2 * margin, left=-margin, height=0.8, color=_BAND, zorder=0)
    for interval, width in ((comparison, 1.2), (comparison["interval_95"], 3.5)):
        if interval["low"] is not None:
            ends = (interval["low"], interval["high"])
            axes.plot(ends, (row, row), color=color, linewidth=width, solid_capstyle="butt")
    face = "white" if verdict == Verdict.NONE else color
    axes.plot([comparison["difference"]], [row], "o", color=color, markerfacecolor=face, markersize=7)
    axes.text(1.01, row, verdict, transform=axes.get_yaxis_transform(), va="center", color=color)


def _curves(findings: Findings) -> Iterator[Drawing]:
    """Yields the curves of the validation loss and of the primary metric, as far as they were logged."""
    arms = [arm["arm"] for arm in findings.record["arms"]]
    shown, omitted = _selected(findings, _PANELS)
    pairs = [(comparison["arm"], comparison["baseline"]) for comparison in shown] or [(arms[0], arms[0])]
    arms = list(dict.fromkeys(chain.from_iterable(pairs)))
    for name, kind, title in (("loss", "loss", LOSS), (findings.metric, "metric", findings.metric)):
        bands = {arm: curves_of(findings, arm, name) for arm in arms}
        if all(len(band) < 2 for band in bands.values()):
            continue
        figure, grid = panels(len(pairs), 2 if len(pairs) == 4 else 3, (2.9, 2.3), (0.3, 0.3), share=True)
        for axes, (arm, baseline) in zip(grid, pairs, strict=True):
            for band, color in ((bands[baseline], GRAY), (bands[arm], BLUE)):
                steps, mean, deviation = band.index, band.mean(axis=1), band.std(axis=1).fillna(0.0)
                axes.plot(steps, mean, color=color, marker="o", markersize=2.5)
                low, high = mean - deviation, mean + deviation
                axes.fill_between(steps, low, high, color=color, alpha=0.2, linewidth=0)
            axes.set_title(wrapped(arm))
            label_updates(axes)
        figure.supxlabel("update", fontsize=9)
        figure.supylabel(title, fontsize=9)
        caption = (
            "On the validation split. Lines are means, and bands one standard deviation over seeds to both "
            "sides; the baseline is gray in every panel." + omitted
        )
        yield Drawing(f"curves-{kind}", f"Learning curves: {title}", caption, figure)


def _tuning(findings: Findings) -> Iterator[Drawing]:
    """Yields for each tuned number the losses with its values, the other settings as arms chose them."""
    once = {arm["arm"]: arm["tuned"] for arm in findings.record["arms"]}
    chosen = {
        (arm["arm"], seed): choice["tuned"]
        for arm in findings.record["arms"]
        for choice in arm["choices"]
        for seed in choice["seeds"]
    }
    for path in dict.fromkeys(path for settings in (*once.values(), *chosen.values()) for path in settings):
        curves: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
        for trial in findings.record["trials"]:
            value, loss, arm = trial["tuned"].get(path), trial["loss"], trial["arm"]
            best = chosen.get((arm, trial["seed"]), once[arm])
            others = {**best, path: value} == trial["tuned"] and trial["share"] == 1
            if others and type(value) in (int, float) and loss is not None:
                curves[arm][value].append(loss)
        shown = [arm for arm, curve in curves.items() if len(curve) > 1][:_TUNED]
        if not shown:
            continue
        figure, (axes,) = panels(1, 1, (6.4, 3.6))
        for number, arm in enumerate(shown):
            values = sorted(curves[arm])
            means = [float(np.mean(curves[arm][value])) for value in values]
            axes.plot(values, means, marker="o", markersize=4, label=wrapped(arm), color=f"C{number}")
            taken = [tuned[path] for (name, _), tuned in chosen.items() if name == arm] or [once[arm][path]]
            for best, count in Counter(taken).items():
                place = (best, means[values.index(best)])
                axes.plot(*place, "o", markersize=9, fillstyle="none", color=f"C{number}")
                if count > 1 or len(taken) > 1:
                    axes.annotate(
                        f"{count}", place, (7, 5 + 9 * number), textcoords="offset points", color=f"C{number}"
                    )
        if min(min(curves[arm]) for arm in shown) > 0:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel(path)
        axes.set_ylabel(LOSS)
        figure.legend(loc="outside right upper")
        caption = (
            f"Means over the seeds of tuning; a ring marks what an arm has chosen, by its {findings.metric}, "
            "a number how many of its seeds have, if each chose for itself."
        )
        yield Drawing(f"tuning-{path}", f"What tuning tried: {path}", caption, figure)
