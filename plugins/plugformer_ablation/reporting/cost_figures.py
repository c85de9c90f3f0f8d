"""Figures of what quality costs: over a training, over scales, and against operations."""

import re
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pandas import DataFrame
from scipy.special import stdtrit

from plugformer_ablation.design.arms import SCALE, TASK, context_of, plain_name
from plugformer_ablation.judging.comparison import Verdict
from plugformer_ablation.judging.findings import LOSS, Findings
from plugformer_ablation.judging.results import Record
from plugformer_cli.drawing import BLUE, GRAY, ORANGE, Drawing, panels

VERDICTS = {Verdict.BETTER: BLUE, Verdict.WORSE: ORANGE}
_NAME = 34  # characters on a line
_LINES = 7  # arms that colors tell apart, besides the gray baseline


def over_training(findings: Findings, shown: Sequence[Record], omitted: str) -> Iterator[Drawing]:
    """Yields the differences of paired validation losses at the updates after which both were evaluated."""
    differences = [curves_of(findings, each["arm"]) - curves_of(findings, each["baseline"]) for each in shown]
    differences = [frame.dropna(how="all") for frame in differences]
    if all(len(frame) < 2 for frame in differences):
        return
    figure, grid = panels(len(shown), 2 if len(shown) == 4 else 3, (2.9, 2.3), (0.3, 0.3), share=True)
    for axes, comparison, frame in zip(grid, shown, differences, strict=True):
        mean, count = frame.mean(axis=1), frame.count(axis=1)
        margin = frame.std(axis=1) / np.sqrt(count) * stdtrit(count - 1, 0.975)
        color = VERDICTS.get(comparison["verdict"], GRAY)
        axes.axhline(0, color=GRAY, linewidth=0.8)
        axes.plot(frame.index, mean, color=color, marker="o", markersize=2.5)
        axes.fill_between(frame.index, mean - margin, mean + margin, color=color, alpha=0.2, linewidth=0)
        axes.set_title(wrapped(comparison["arm"]))
        label_updates(axes)
    figure.supxlabel("update", fontsize=9)
    figure.supylabel(f"difference in {LOSS}", fontsize=9)
    caption = (
        "The arm minus its baseline, over pairs of seeds: it is better below 0. Bands are 95 % t intervals, "
        "each for itself; colors are those of the verdicts." + omitted
    )
    yield Drawing("over-training", "Paired differences during training", caption, figure)


def by_cost(findings: Findings, shown: Sequence[Record]) -> Iterator[Drawing]:
    """Yields the learning curves of a context over what updates of its arms differ in."""
    arms = findings.arms
    for context, group in groupby(shown, key=lambda each: context_of(arms[each["arm"]]["values"])):
        names = list(dict.fromkeys(name for each in group for name in (each["baseline"], each["arm"])))
        names = names[: _LINES + 1]
        costs = DataFrame({name: _of_update(findings, arms[name]) for name in names}).dropna()
        costs = costs[costs.max(axis=1) > 1.01 * costs.min(axis=1)]
        if costs.empty:
            continue
        figure, grid = panels(len(costs), 3, (3.6, 2.8), (0.3, 0.7))
        for axes, unit in zip(grid, costs.index, strict=True):
            for number, name in enumerate(names):
                mean = curves_of(findings, name).mean(axis=1)
                x, color = mean.index * costs.loc[unit, name], _color(number)
                axes.plot(x, mean, color=color, marker="o", markersize=2.5, label=wrapped(name))
            axes.set_xlabel(unit)
        grid[0].set_ylabel(LOSS)
        figure.legend(*grid[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        caption = "Means over seeds, on the validation split; the baseline is gray."
        yield drawing("by-cost", "Learning curves by cost", "-".join(context), caption, figure)


def over_scales(findings: Findings) -> Iterator[Drawing]:
    """Yields for each task the differences from the baseline at its scales."""
    for task, lines in _lines(findings, findings.comparisons):
        known = {name: [each for each in line if each["low"] is not None] for name, line in lines.items()}
        lines = {name: line for name, line in known.items() if line}
        scales = list(dict.fromkeys(each["scale"] for line in lines.values() for each in line))
        if len(scales) < 2:
            continue
        figure, (axes,) = panels(1, 1, (6.4, 3.6))
        axes.axhline(0, color=GRAY, linewidth=0.8)
        largest = {name: max(abs(each["difference"]) for each in line) for name, line in lines.items()}
        shown = sorted(sorted(lines, key=largest.__getitem__)[-_LINES:], key=[*lines].index)
        for number, name in enumerate(shown):
            line = lines[name]
            x = [scales.index(each["scale"]) + 0.06 * (number - len(shown) / 2) for each in line]
            middle, *ends = ([each[key] for each in line] for key in ("difference", "low", "high"))
            margins = np.abs(np.subtract(ends, middle))
            axes.errorbar(x, middle, margins, fmt="o-", markersize=4, linewidth=1, label=wrapped(name))
        axes.set_xticks(range(len(scales)), scales)
        axes.set_ylabel(f"difference in {line[0]['metric']}")
        figure.legend(loc="outside right upper")
        few = (
            f" The {_LINES} of {len(lines)} arms with the largest differences." if len(lines) > _LINES else ""
        )
        caption = f"Against the baseline of each scale, with the intervals that decide.{few}"
        yield drawing("over-scales", "Differences over scales", task, caption, figure)


def power_laws(findings: Findings) -> Iterator[Drawing]:
    """Yields the power laws of a study with their bands, dashed beyond the largest scale."""
    known = [law for law in findings.record["laws"] if "curve" in law][: _LINES + 1]
    if not known:
        return
    figure, (axes,) = panels(1, 1, (6.4, 4))
    for number, law in enumerate(known):
        color, curve = _color(number), DataFrame(law["curve"]).astype(float)
        largest = int(np.abs(curve["operations"] - law["scales"]["operations"][-1]).argmin())
        for part, style in ((curve[: largest + 1], "-"), (curve[largest:], "--")):
            axes.plot(part["operations"], part["loss"], style, color=color, label=wrapped(law["arm"]))
        axes.lines[-1].set_label("")  # one of both is enough
        x, ends = curve["operations"], (curve["low"], curve["high"])
        axes.fill_between(x, *ends, color=color, alpha=0.15, linewidth=0)
        axes.plot(law["scales"]["operations"], law["scales"]["loss"], "o", color=color, markersize=4)
    _logarithmic(axes, curve["operations"])
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:.3g}")
    axes.yaxis.set_minor_formatter("{x:.3g}")
    axes.set_xlabel("operations of a training")
    axes.set_ylabel(LOSS)
    figure.legend(loc="outside right upper")
    caption = "Points are means over seeds, bands 95 % over seeds; the dashed part is an extrapolation."
    yield Drawing("laws", "Power laws over scales", caption, figure)


def against_operations(findings: Findings) -> Iterator[Drawing]:
    """Yields for each task the score of each arm, at all scales, against the operations of a training."""
    verdicts = {each["arm"]: VERDICTS.get(each["verdict"], GRAY) for each in findings.comparisons}
    known = [arm for arm in findings.record["arms"] if arm["score"] and arm["cost"]["operations"]]
    for task, lines in _lines(findings, known):
        costs = [arm["cost"]["operations"] for line in lines.values() for arm in line]
        if np.ptp(costs) <= 0.01 * max(costs):
            continue
        figure, (axes,) = panels(1, 1, (6.4, 3.6))
        few = len(lines) <= _LINES + 1
        for number, (name, line) in enumerate(lines.items()):
            x = [arm["cost"]["operations"] for arm in line]
            y, margins = ([arm["score"][key] for arm in line] for key in ("mean", "deviation"))
            color = _color(number) if few else verdicts.get(line[-1]["arm"], GRAY)
            errors = margins if few and None not in margins else None
            axes.errorbar(x, y, errors, fmt="o-", color=color, linewidth=1, markersize=4, label=wrapped(name))
        _logarithmic(axes, costs)
        axes.set_xlabel("operations of a training")
        axes.set_ylabel(line[0]["metric"])
        caption = "Means over seeds; colors are those of the verdicts, of an arm's last scale."
        if few:
            figure.legend(loc="outside right upper")
            caption = "Means, and one standard deviation over seeds to both sides."
        yield drawing("operations", "Quality against operations", task, caption, figure)


def _lines(findings: Findings, records: Sequence[Record]) -> Iterator[tuple[str, dict[str, list[Record]]]]:
    """Yields for each task the records of each arm, by its name without a context, with their `scale`."""
    arms = findings.arms
    for task, group in groupby(records, key=lambda each: arms[each["arm"]]["values"].get(TASK, "")):
        lines: dict[str, list[Record]] = defaultdict(list)
        for each in group:
            values = arms[each["arm"]]["values"]
            lines[plain_name(each["arm"], values)].append({**each, "scale": values.get(SCALE, "")})
        yield task, lines


def drawing(name: str, title: str, where: str, caption: str, figure: Figure) -> Drawing:
    """Returns a drawing of a task or a context, which is empty if the study has one alone."""
    file = "-".join(filter(None, (name, re.sub(r"[^\w=.,+-]+", "-", where))))
    return Drawing(file, ", ".join(filter(None, (title, where))), caption, figure)


def _color(number: int) -> str:
    """Returns the color of an arm, gray for the first, which is the baseline."""
    return f"C{number - 1}" if number else GRAY


def _logarithmic(axes: Axes, operations: Sequence[float]) -> None:
    """Draws operations that differ by much on a logarithmic axis."""
    if max(operations) > 10 * min(operations):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:.0e}")


def _of_update(findings: Findings, arm: Record) -> dict[str, float]:
    """Returns what an update of an arm costs, as far as it is known."""
    cells = [cell for cell in findings.results.cells_of(arm["arm"]) if cell.curve and cell.tokens]
    costs = {}
    if cells:
        costs["tokens"] = float(np.median([cell.tokens / cell.curve[-1]["step"] for cell in cells]))
        costs["operations"] = arm["cost"]["operations"] / cells[0].curve[-1]["step"]
    if update := arm["cost"]["update"]:
        costs["time, in updates of the baseline"] = update["ratio"]
    return costs


def curves_of(findings: Findings, arm: str, name: str = "loss") -> DataFrame:
    """Returns the validation losses of an arm, or another metric, by update, with a column for each seed."""
    curves = {
        cell.seed: {
            point["step"]: point["loss"] if name == "loss" else point["metrics"].get(name)
            for point in cell.curve
        }
        for cell in findings.results.cells_of(arm)
    }
    frame = DataFrame(curves, dtype=float).replace([np.inf, -np.inf], np.nan)
    return frame.dropna(how="all").sort_index()


def label_updates(axes: Axes) -> None:
    """Labels the updates of a panel that shares its scales with others."""
    axes.xaxis.set_tick_params(labelbottom=True)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 5, 10]))


def wrapped(name: str) -> str:
    """Returns the name of an arm on lines that a figure has room for."""
    return "\n".join(textwrap.wrap(name, _NAME)) or name
