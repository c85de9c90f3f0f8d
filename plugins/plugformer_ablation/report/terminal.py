"""The report as text: tables that fit a terminal, and plain lines of any length in a pipe."""

import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from plugformer_ablation.findings import LOSS, ArmFinding, Comparison, Findings
from plugformer_ablation.report.wording import (
    MDD,
    NOTHING,
    explanation,
    heading,
    interval_text,
    level_text,
    loss_decimals,
    number_text,
    p_text,
    remarks,
    score_decimals,
    summary_text,
)
from plugformer_ablation.statistics.judgement import Verdict

if TYPE_CHECKING:
    from rich.table import Table

_COLOURS = {Verdict.BETTER: "green", Verdict.WORSE: "red"}
_UNLIMITED = 10_000  # columns: more than any line needs


def report_text(findings: Findings, width: int | None) -> str:
    """Returns the report.

    Args:
        findings: What it tells.
        width: Columns of the terminal; None where nobody looks at one: lines are as long as they need to be,
            and nothing is coloured.
    """
    from rich.console import Console
    from rich.text import Text

    file = io.StringIO()
    console = Console(
        file=file,
        width=width or _UNLIMITED,
        force_terminal=width is not None,
        highlight=False,
        markup=False,
        legacy_windows=False,
    )
    console.print(Text(findings.title, style="bold"))
    console.print(heading(findings))
    console.print()
    console.print(_arms(findings))
    if findings.comparisons:
        console.print()
        console.print(_comparisons(findings, width))
    for lines, style in ((remarks(findings), ""), (explanation(findings), "dim")):
        if lines:
            console.print()
        for line in lines:
            console.print(Text(line, style=style))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def _arms(findings: Findings) -> "Table":
    places, loss = score_decimals(findings), loss_decimals(findings)
    rows = [
        (
            arm.arm.name,
            summary_text(arm.score, places),
            summary_text(arm.loss, loss),
            *_cost(arm),
        )
        for arm in findings.arms
    ]
    return _table(("arm", findings.metric, LOSS, "params", "tokens/s"), rows)


def _cost(arm: ArmFinding) -> tuple[str, str]:
    if arm.cost is None:
        return NOTHING, NOTHING
    return f"{arm.cost.parameters:,}", f"{arm.cost.tokens_per_second:,.0f}"


def _comparisons(findings: Findings, width: int | None) -> "Table":
    level = level_text(findings.comparisons[0].judgement.level)
    baselines = {each.baseline for each in findings.comparisons}
    first = f"against {baselines.pop()}" if len(baselines) == 1 else "comparison"
    head = (first, f"difference\n[{level} interval]", "p", "verdict", MDD)
    rows = [
        _comparison(each, score_decimals(findings), named=first == "comparison")
        for each in findings.comparisons
    ]
    table = _table(head, rows, [_COLOURS.get(each.judgement.verdict, "") for each in findings.comparisons])
    if width is not None:  # verdicts of two words take two lines, which leaves room for names
        table.columns[head.index("verdict")].max_width = len("distinguishable")
    return table


def _comparison(comparison: Comparison, places: int, *, named: bool) -> tuple[str, ...]:
    judgement = comparison.judgement
    return (
        f"{comparison.arm} - {comparison.baseline}" if named else comparison.arm,
        f"{number_text(judgement.contrast.difference, places)} {interval_text(judgement.interval, places)}",
        p_text(judgement.p),
        judgement.verdict,
        number_text(judgement.minimum_detectable_difference, places),
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], styles: Sequence[str] = ()) -> "Table":
    """Returns a table whose first column and verdicts are text and whose others are numbers."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, name in enumerate(head):
        text = number == 0 or name == "verdict"
        table.add_column(Text(name), justify="left" if text else "right", overflow="fold", no_wrap=not text)
    for number, row in enumerate(rows):
        style = styles[number] if number < len(styles) else ""
        table.add_row(*[Text(cell, style=style if cell in set(Verdict) else "") for cell in row])
    return table
