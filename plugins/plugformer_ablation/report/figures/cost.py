"""Cost against quality: what each arm takes, and what it scores for that."""

from collections.abc import Callable, Iterator
from math import ceil

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from plugformer_ablation.findings import ArmFinding, Cost, Findings
from plugformer_ablation.report.figures.palette import look_of
from plugformer_reports.drawing import Drawing

_AXES: dict[str, Callable[[Cost], float]] = {
    "parameters": lambda cost: cost.parameters,
    "FLOPs per token, forward": lambda cost: cost.flops_per_token,
    "training time in seconds": lambda cost: cost.seconds,
    "peak memory in MB": lambda cost: cost.peak_memory_mb,
}
_ALIKE = 0.01  # relative difference below which a cost is matched
_COLUMNS = 2
_PANEL = (3.6, 2.7)  # inches
_LEGEND_ROW = 0.2  # inches
_MARK, _LETTER = 0.55, 0.075  # inches that an entry of the legend takes


def draw_cost(findings: Findings) -> Iterator[Drawing]:
    """Yields a panel for each cost in which arms differ; nothing if they cost the same."""
    arms = [(number, arm) for number, arm in enumerate(findings.arms) if arm.cost and arm.score]
    shown: list[str] = []
    alike: list[str] = []
    for name, cost in _AXES.items():
        values = [cost(arm.cost) for _, arm in arms if arm.cost is not None]
        if values and max(values) > 0:
            (shown if max(values) - min(values) > _ALIKE * max(values) else alike).append(name)
    if not shown:
        return
    caption = (
        f"Each mark is an arm: the median cost of its cells, and its mean {findings.metric} with the 95 % "
        "interval over seeds."
    )
    if alike:
        caption += f" Within 1 % the same for all arms: {', '.join(alike)}."
    yield Drawing("cost", "Cost against quality", caption, _figure(findings, arms, shown))


def _figure(findings: Findings, arms: list[tuple[int, ArmFinding]], shown: list[str]) -> Figure:
    columns = min(_COLUMNS, len(shown))
    rows = ceil(len(shown) / columns)
    width = max(columns * _PANEL[0], 6)
    entries = max(1, int(width / (_MARK + _LETTER * max(len(arm.arm.name) for _, arm in arms))))
    height = rows * _PANEL[1] + 0.4 + _LEGEND_ROW * ceil(len(arms) / entries)
    figure = Figure(figsize=(width, height), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False, sharey=True).flat)
    for axes, name in zip(panels, shown, strict=False):
        _draw(axes, name, arms)
    for axes in panels[len(shown) :]:
        axes.remove()
    figure.supylabel(findings.metric, fontsize=9)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(entries, 4))
    return figure


def _draw(axes: Axes, name: str, arms: list[tuple[int, ArmFinding]]) -> None:
    for number, arm in arms:
        if arm.cost is None or arm.score is None:
            continue
        look, score = look_of(number), arm.score
        low, high = score.interval or (score.mean, score.mean)
        axes.errorbar(
            _AXES[name](arm.cost),
            score.mean,
            [[score.mean - low], [high - score.mean]],
            fmt=look.marker,
            color=look.colour,
            markersize=5,
            elinewidth=0.9,
            label=arm.arm.name,
        )
    axes.set_xlabel(name)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
    axes.grid(visible=True)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
