"""Forest plot: every difference from the baseline with its intervals."""

import textwrap
from collections.abc import Iterator
from math import isfinite

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from plugformer_ablation.findings import Comparison, Findings
from plugformer_ablation.report.wording import level_text
from plugformer_ablation.statistics.judgement import Verdict
from plugformer_reports.drawing import BLUE, GRAY, ORANGE, Drawing

_COLOURS = {Verdict.BETTER: BLUE, Verdict.WORSE: ORANGE}
_WIDTH, _ROW, _REST = 8.4, 0.42, 1.3  # inches
_BAR = "#e9ebee"
_NAME = 34  # characters on a line


def draw_forest(findings: Findings) -> Iterator[Drawing]:
    """Yields the plot, unless there is nothing to compare."""
    shown = [each for each in findings.comparisons if each.judgement.contrast.difference is not None]
    if not shown:
        return
    names = [_name(findings, each) for each in shown]
    lines = sum(name.count("\n") for name in names)
    height = _REST + _ROW * len(shown) + 0.15 * lines
    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    axes = figure.add_subplot()
    for row, comparison in enumerate(shown):
        _draw(axes, row, comparison)
    axes.axvline(0, color=GRAY, linewidth=0.8, zorder=1)
    axes.set_yticks(range(len(shown)), names)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    side = "right" if findings.higher_is_better else "left"
    axes.set_xlabel(f"difference in {findings.metric}; better to the {side}")
    axes.grid(visible=True, axis="x")
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.legend(handles=_legend(shown), loc="outside upper right", ncols=4)
    yield Drawing("differences", "Differences from the baseline", _caption(shown), figure)


def _name(findings: Findings, comparison: Comparison) -> str:
    several = len({each.baseline for each in findings.comparisons}) > 1
    name = f"{comparison.arm} - {comparison.baseline}" if several else comparison.arm
    return "\n".join(textwrap.wrap(name, _NAME)) or name


def _draw(axes: Axes, row: int, comparison: Comparison) -> None:
    judgement, difference = comparison.judgement, comparison.judgement.contrast.difference
    if difference is None:
        return
    colour = _COLOURS.get(judgement.verdict, GRAY)
    if judgement.minimum_detectable_difference is not None:
        reach = judgement.minimum_detectable_difference
        axes.barh(row, 2 * reach, left=-reach, height=0.7, color=_BAR, zorder=0)
    for interval, width in ((judgement.interval, 1.2), (judgement.plain_interval, 3.5)):
        if interval is not None and all(map(isfinite, interval)):
            axes.plot(interval, (row, row), color=colour, linewidth=width, solid_capstyle="butt")
    face = "white" if judgement.verdict is Verdict.NONE else colour
    axes.plot([difference], [row], "o", color=colour, markerfacecolor=face, markersize=7)
    axes.text(1.01, row, judgement.verdict, transform=axes.get_yaxis_transform(), va="center", color=colour)


def _legend(shown: list[Comparison]) -> list[Line2D | Patch]:
    judgement = shown[0].judgement
    lines: list[Line2D | Patch] = [Line2D([], [], color=GRAY, linewidth=3.5, label="95 %")]
    if len(shown) > 1:
        lines.append(Line2D([], [], color=GRAY, linewidth=1.2, label=level_text(judgement.level)))
    if any(each.judgement.minimum_detectable_difference is not None for each in shown):
        lines.append(Patch(color=_BAR, label="power below 80 %"))
    return lines


def _caption(shown: list[Comparison]) -> str:
    caption = (
        "The arm's mean minus the baseline's, over pairs of seeds. The interval covers what seeds and test "
        "examples leave open"
    )
    if len(shown) > 1:
        caption += (
            "; the thick line is for a single comparison, the thin one, which decides the verdict, for all "
            "together"
        )
    return caption + ". This study finds a true difference within the gray bar with a power below 80 %."
