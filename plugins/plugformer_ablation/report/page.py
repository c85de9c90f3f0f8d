"""`report.html`: a whole study on one page, which needs no network and no other file."""

import json
from collections.abc import Sequence
from html import escape
from typing import Any

import yaml

from plugformer_ablation.findings import LOSS, ArmFinding, Comparison, Findings
from plugformer_ablation.report.records import flat
from plugformer_ablation.report.wording import (
    MINIMUM_DETECTABLE_DIFFERENCE,
    NOTHING,
    decimals,
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
from plugformer_reports.page import Picture, document, figure, table

Sections = list[tuple[str, str]]


def report_page(findings: Findings, pictures: Sequence[Picture]) -> str:
    """Returns the page.

    Args:
        findings: What it tells.
        pictures: The figures, in their order.
    """
    sections: Sections = [("Result", _result(findings))]
    if pictures:
        sections.append(("Figures", "\n".join(map(figure, pictures))))
    sections += [
        ("Cost", _cost(findings)),
        ("Configurations", _configurations(findings)),
        ("All scores", _scores(findings)),
        ("What it was made of", _made_of(findings)),
    ]
    return document(findings.title, _paragraph(heading(findings)), sections)


def _paragraph(text: str, kind: str = "") -> str:
    return f"<p{f' class={kind!r}' if kind else ''}>{escape(text)}</p>"


def _list(lines: Sequence[str]) -> str:
    return "<ul>\n" + "\n".join(f"<li>{escape(line)}</li>" for line in lines) + "\n</ul>" if lines else ""


def _result(findings: Findings) -> str:
    places, loss = score_decimals(findings), loss_decimals(findings)
    arms = [
        (
            arm.arm.name,
            f"{len(arm.cells)} of {len(arm.cells) + len(arm.failures)}",
            summary_text(arm.score, places),
            _interval(arm, places),
            summary_text(arm.loss, loss),
        )
        for arm in findings.arms
    ]
    head = ("arm", "cells", findings.metric, "95 % interval", LOSS)
    return "\n".join(
        [
            table(head, arms, head[1:]),
            _comparisons(findings),
            _list(remarks(findings)),
            *(_paragraph(line, "soft") for line in explanation(findings)),
        ]
    )


def _interval(arm: ArmFinding, places: int) -> str:
    if arm.score is None or arm.score.interval is None:
        return NOTHING
    return f"[{arm.score.interval[0]:.{places}f}, {arm.score.interval[1]:.{places}f}]"


def _comparisons(findings: Findings) -> str:
    """Returns the table of verdicts, and below it what they follow from."""
    if not findings.comparisons:
        return ""
    places, loss = score_decimals(findings), loss_decimals(findings)
    level = level_text(findings.comparisons[0].judgement.level)
    verdicts, details = [], []
    for comparison in findings.comparisons:
        judgement, contrast = comparison.judgement, comparison.judgement.contrast
        name = f"{comparison.arm} - {comparison.baseline}"
        verdicts.append(
            (
                name,
                judgement.verdict,
                number_text(contrast.difference, places),
                interval_text(judgement.interval, places),
                p_text(judgement.p),
                number_text(judgement.minimum_detectable_difference, places),
            )
        )
        errors = (contrast.seeds, contrast.examples, contrast.both)
        details.append(
            (
                name,
                *(number_text(None if each is None else each.error, places) for each in errors),
                number_text(contrast.effect_size, 2),
                _loss(comparison, loss),
            )
        )
    head = ("comparison", "verdict", "difference", f"{level} interval", "p", MINIMUM_DETECTABLE_DIFFERENCE)
    below = ("comparison", *(f"standard error, {each}" for each in ("seeds", "examples", "both")))
    below += ("effect size d_z", f"{LOSS}, 95 % interval")
    told = _paragraph(
        "What is larger of the errors over seeds and over examples says which there should be more of. The "
        "interval of the validation loss is not corrected for the number of comparisons.",
        "soft",
    )
    return table(head, verdicts, head[2:]) + table(below, details, below[1:]) + told


def _loss(comparison: Comparison, places: int) -> str:
    if comparison.loss is None:
        return NOTHING
    difference, interval = comparison.loss
    return f"{number_text(difference, places)} {interval_text(interval, places)}"


def _cost(findings: Findings) -> str:
    rows = [
        (
            arm.arm.name,
            f"{arm.cost.parameters:,}",
            f"{arm.cost.flops_per_token / 1e6:#.4g}",
            f"{arm.cost.peak_memory_mb:,.0f}",
            f"{arm.cost.tokens_per_second:,.0f}",
            f"{arm.cost.seconds:,.0f}",
        )
        for arm in findings.arms
        if arm.cost is not None
    ]
    head = ("arm", "parameters", "MFLOPs/token, forward", "peak memory in MB", "tokens/s", "seconds")
    told = "Measured ones are medians over an arm's cells; cells that run side by side share the machine."
    return table(head, rows, head[1:]) + _paragraph(told, "soft")


def _configurations(findings: Findings) -> str:
    tasks = {arm.arm.name: flat(_lists_as_text(arm.arm.task)) for arm in findings.arms}
    names = list(dict.fromkeys(name for task in tasks.values() for name in task))
    missing = object()
    differing = [name for name in names if len({str(task.get(name, missing)) for task in tasks.values()}) > 1]
    rows = [
        (arm, *(str(task[name]) if name in task else NOTHING for name in differing))
        for arm, task in tasks.items()
    ]
    told = (
        "What differs between the arms; everything else is the same." if differing else "No setting differs."
    )
    return "\n".join(
        [
            _paragraph(told),
            table(("arm", *differing), rows) if differing else "",
            *(_details(arm.arm.name, arm.arm.task) for arm in findings.arms),
            _details("The study", findings.results.study),
        ]
    )


def _lists_as_text(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _lists_as_text(each) for key, each in value.items()}
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value


def _details(title: str, content: Any) -> str:
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    return f"<details><summary>{escape(title)}</summary>\n<pre>{escape(text)}</pre></details>"


def _scores(findings: Findings) -> str:
    names = [name for name in findings.results.metrics if name != findings.metric]
    summaries = {name: [arm.others.get(name) for arm in findings.arms] for name in names}
    rows = [
        (arm.arm.name, *(summary_text(summaries[name][row], decimals(summaries[name])) for name in names))
        for row, arm in enumerate(findings.arms)
    ]
    others = [
        _paragraph("Other metrics, mean ± standard deviation over seeds. Only the primary one is judged."),
        table(("arm", *names), rows, names),
    ]
    return "\n".join([*(others if names else []), _paragraph("Every cell."), _cells(findings)])


def _cells(findings: Findings) -> str:
    names = list(findings.results.metrics)
    rows = [
        (
            cell.arm,
            str(cell.seed),
            *(f"{cell.metrics[name]:.4f}" if name in cell.metrics else NOTHING for name in names),
            NOTHING if cell.failure is not None else f"{cell.loss:.4f}",
            cell.failure or "",
        )
        for cell in findings.results.cells
    ]
    return table(("arm", "seed", *names, LOSS, "failure"), rows, ("seed", *names, LOSS))


def _made_of(findings: Findings) -> str:
    rows = [(name, str(value)) for name, value in flat(_lists_as_text(findings.results.made_of)).items()]
    return table((), rows)
