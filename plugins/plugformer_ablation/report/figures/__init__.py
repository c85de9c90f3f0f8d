"""Figures of a study; they need matplotlib."""

from collections.abc import Callable

from plugformer_ablation.findings import Findings
from plugformer_ablation.report.figures.cost import draw_cost
from plugformer_ablation.report.figures.curves import draw_curves
from plugformer_ablation.report.figures.forest import draw_forest
from plugformer_reports.drawing import looks, rendered
from plugformer_reports.fonts import families_for
from plugformer_reports.page import Picture

__all__ = ["draw"]


def draw(findings: Findings, notify: Callable[[str], None]) -> tuple[list[Picture], dict[str, bytes]]:
    """Returns all figures, as pictures for a page and as files by name.

    Args:
        findings: What they show.
        notify: Is told which characters cannot be drawn.
    """
    texts = [findings.metric, *(arm.arm.name for arm in findings.arms)]
    families, missing = families_for(texts)
    if missing:
        some = " ".join(sorted(missing)[:10])
        notify(f"no installed font has {some}: PNG files show boxes instead; install one and report again")
    pictures: list[Picture] = []
    files: dict[str, bytes] = {}
    with looks(families):
        for drawing in (*draw_forest(findings), *draw_curves(findings), *draw_cost(findings)):
            svg = rendered(drawing.figure, "svg")
            pictures.append(Picture(drawing.name, drawing.title, drawing.caption, svg.decode()))
            files |= {f"{drawing.name}.svg": svg, f"{drawing.name}.png": rendered(drawing.figure, "png")}
    return pictures, files
