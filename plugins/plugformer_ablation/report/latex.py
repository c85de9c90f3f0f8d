"""The report's table for a paper, in LaTeX with the package booktabs."""

import re

from plugformer_ablation.findings import LOSS, ArmFinding, Findings
from plugformer_ablation.report.wording import (
    MDD,
    explanation,
    heading,
    interval_text,
    level_text,
    loss_decimals,
    number_text,
    p_text,
    score_decimals,
    summary_text,
)

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "<": r"$<$",
    ">": r"$>$",
    **{each: rf"\{each}" for each in "&%$#_{}"},
}
_NUMBER = re.compile(r"(?<![\w.])-(?=\d)")


def latex_table(findings: Findings) -> str:
    """Returns a table environment; its document needs the package booktabs."""
    level = "" if not findings.comparisons else level_text(findings.comparisons[0].judgement.level)
    head = (
        *("Arm", findings.metric, LOSS, "Parameters", "Difference", f"{level} interval", "$p$"),
        *("Verdict", MDD),
    )
    names = [name if name == "$p$" else escape(name.strip()) for name in head]
    rows = [_row(findings, arm) for arm in findings.arms]
    caption = escape(f"{findings.title}: {heading(findings)}. " + " ".join(explanation(findings)))
    return "\n".join(
        [
            "% needs \\usepackage{booktabs}",
            "\\begin{table}",
            "\\centering",
            f"\\caption{{{caption}}}",
            "\\begin{tabular}{lrrrrrrlr}",
            "\\toprule",
            " & ".join(names) + r" \\",
            "\\midrule",
            *(" & ".join(row) + r" \\" for row in rows),
            "\\bottomrule",
            "\\end{tabular}",
            "\\end{table}",
            "",
        ]
    )


def escape(text: str) -> str:
    """Returns a text that LaTeX prints as it is; the minus signs of numbers become real ones."""
    escaped = "".join(_SPECIAL.get(character, character) for character in " ".join(text.split()))
    return _NUMBER.sub("$-$", escaped)


def _row(findings: Findings, arm: ArmFinding) -> list[str]:
    places = score_decimals(findings)
    comparison = findings.comparison_of(arm.arm.name)
    cells = [
        arm.arm.name,
        summary_text(arm.score, places),
        summary_text(arm.loss, loss_decimals(findings)),
        "" if arm.cost is None else f"{arm.cost.parameters:,}",
    ]
    if comparison is None:
        return [escape(cell) for cell in [*cells, "", "", "", "baseline", ""]]
    judgement = comparison.judgement
    cells += [
        number_text(judgement.contrast.difference, places),
        interval_text(judgement.interval, places),
        p_text(judgement.p),
        judgement.verdict,
        number_text(judgement.minimum_detectable_difference, places),
    ]
    return [escape(cell) for cell in cells]
