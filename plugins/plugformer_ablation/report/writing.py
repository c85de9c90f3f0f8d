"""All forms of a report, made of one table: for a terminal, a page, LaTeX, and files for other programs."""

import io
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader
from markupsafe import Markup
from pandas import DataFrame, isna
from rich.console import Console
from rich.table import Table
from rich.text import Text

from plugformer.errors import ConfigurationError, needing
from plugformer.runs import replacing
from plugformer_ablation.comparison import Verdict
from plugformer_ablation.findings import LOSS, Findings
from plugformer_ablation.report.text import (
    MDD,
    NOTHING,
    decimals,
    explanation,
    heading,
    headings,
    level_text,
    readable,
    remarks,
    spread_text,
)
from plugformer_ablation.results import Record, flat
from plugformer_reports.page import document, table

_COLORS = {Verdict.BETTER: "green", Verdict.WORSE: "red"}
_UNLIMITED = 10_000  # columns: more than any line needs
_TEXT = ("arm", "comparison", "verdict", "failure")  # columns that are no numbers

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "<": r"$<$",
    ">": r"$>$",
    **{each: rf"\{each}" for each in "&%$#_{}"},
}
_MINUS = re.compile(r"(?<![\w.])-(?=\d)")


def write_report(findings: Findings, out: Path, notify: Callable[[str], None]) -> list[Path]:
    """Writes the report and returns its files, the page last.

    The page is `report.html`. Beside it stand `report.json`, `report.csv` (a row for each arm), `cells.csv`
    (a row for each cell), `report.tex`, and the figures as PNG and SVG.

    Args:
        findings: What it tells.
        out: A folder; files of earlier reports in it are replaced.
        notify: Is told what cannot be drawn, and why.

    Raises:
        RunError: A file cannot be written.
    """
    figures, files = _drawn(findings, notify)
    cells = findings.results.table().replace([math.inf, -math.inf], math.nan)  # nothing, rather than "inf"
    contents = {
        "report.json": json.dumps(findings.record, indent=2, ensure_ascii=False, allow_nan=False).encode(),
        "report.csv": findings.table.to_csv(index=False, lineterminator="\n").encode(),
        "cells.csv": cells.to_csv(index=False, lineterminator="\n").encode(),
        "report.tex": latex_table(findings).encode(),
        **files,
        "report.html": report_page(findings, figures).encode(),
    }
    for name, content in contents.items():
        with replacing(out / name) as temporary:
            temporary.write_bytes(content)
    return [out / name for name in contents]


def _drawn(findings: Findings, notify: Callable[[str], None]) -> tuple[list[str], dict[str, bytes]]:
    """Returns all figures, in HTML for a page and as files by name; none where matplotlib is missing."""
    try:
        with needing("figures", "a report with figures"):
            from plugformer_ablation.report.figures import draw  # imports matplotlib, which takes a second
    except ConfigurationError as error:
        notify(f"the report has no figures: {error}")
        return [], {}
    return draw(findings, notify)


def report_text(findings: Findings, width: int | None) -> str:
    """Returns the report as text.

    Args:
        findings: What it tells.
        width: Columns of the terminal; None where nobody looks at one: lines are as long as they need to be,
            and nothing is colored.
    """
    file = io.StringIO()
    console = Console(
        file=file,
        width=width or _UNLIMITED,
        force_terminal=width is not None,
        highlight=False,
        markup=False,
        legacy_windows=False,
    )
    console.print(Text(str(findings.record["study"]["study"]), style="bold"))
    console.print(heading(findings))
    shown = readable(findings)
    arms = ("arm", findings.metric, LOSS, "params", "tokens/s")
    blocks: list[Any] = [_grid(arms, shown[["arm", "score", "loss", "parameters", "speed"]])]
    if findings.comparisons:
        against = f"against {findings.comparisons[0]['baseline']}"
        verdicts = shown[shown["comparison"] != ""].copy()
        verdicts["difference"] += " " + verdicts["interval"]
        head = (against, f"difference\n[{level_text(findings)} interval]", "p", "verdict", MDD)
        grid = _grid(head, verdicts[["arm", "difference", "p", "verdict", "mdd"]])
        if width is not None:  # verdicts of two words take two lines, which leaves room for names
            grid.columns[head.index("verdict")].max_width = len("distinguishable")
        blocks.append(grid)
    blocks += [Text("\n".join(remarks(findings))), Text("\n".join(explanation(findings)), style="dim")]
    for block in blocks:
        if block:
            console.print()
            console.print(block)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def latex_table(findings: Findings) -> str:
    """Returns a table environment; its document needs the package booktabs."""
    shown = readable(findings)
    compared = ["difference", "interval", "p", "verdict", "mdd"]
    shown.loc[shown["comparison"] == "", compared] = ["", "", "", "baseline", ""]
    keys = ["arm", "score", "loss", "parameters", *compared]
    named = {**headings(findings), "arm": "Arm", "parameters": "Parameters", "difference": "Difference"}
    named |= {"verdict": "Verdict", "mdd": MDD}
    chosen = shown[keys].map(latex_escape)
    chosen.columns = ["$p$" if key == "p" else latex_escape(named[key].strip()) for key in keys]
    title = findings.record["study"]["study"]
    caption = latex_escape(f"{title}: {heading(findings)}. {' '.join(explanation(findings))}")
    style = chosen.style.hide(axis="index")
    latex: str = style.to_latex(
        column_format="lrrrrrrlr", position_float="centering", hrules=True, caption=caption
    )
    return f"% needs \\usepackage{{booktabs}}\n{latex}"


def latex_escape(text: str) -> str:
    """Returns a text that LaTeX prints as it is; the minus signs of numbers become real ones."""
    escaped = "".join(_LATEX.get(character, character) for character in " ".join(text.split()))
    return _MINUS.sub("$-$", escaped)


def report_page(findings: Findings, figures: Sequence[str]) -> str:
    """Returns `report.html`: a whole study on one page, which needs no network and no other file.

    Args:
        findings: What it tells.
        figures: The figures in HTML, in their order.
    """
    environment = Environment(loader=PackageLoader("plugformer_ablation", "report"), autoescape=True)
    environment.globals["table"] = _html
    section: Any = environment.get_template("page.html").module
    named, shown = headings(findings), readable(findings)

    def chosen(rows: DataFrame, *keys: str) -> DataFrame:
        return rows[list(keys)].rename(columns=named)

    compared = shown[shown["comparison"] != ""]
    verdicts = chosen(compared, "comparison", "verdict", "difference", "interval", "p", "mdd")
    errors = ("error.seeds", "error.examples", "error.both", "effect", "loss.difference")
    costs = chosen(
        shown[shown["parameters"] != NOTHING], "arm", "parameters", "flops", "memory", "speed", "seconds"
    )
    results, arms = findings.results, findings.record["arms"]
    sections = {
        "Result": section.result(
            chosen(shown, "arm", "cells", "score", "score.interval", "loss"),
            verdicts if len(compared) else None,
            chosen(compared, "comparison", *errors),
            remarks(findings),
            explanation(findings),
        ),
        "Figures": section.figures(figures) if figures else "",
        "Cost": section.cost(costs),
        "Configurations": section.configurations(
            _differing(arms), {arm["arm"]: _yaml(arm["task"]) for arm in arms}, _yaml(results.study)
        ),
        "All scores": section.scores(_other_metrics(findings), _cells(findings)),
        "What it was made of": table((), list(_settings(results.made_of))),
    }
    header = section.paragraph(heading(findings))
    title = str(results.study["study"])
    return document(title, header, [(name, text) for name, text in sections.items() if text])


def _grid(head: Sequence[str], rows: DataFrame) -> Table:
    """Returns a table for a terminal; its first column and verdicts are text, the others numbers."""
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, name in enumerate(head):
        text = number == 0 or name == "verdict"
        grid.add_column(Text(name), justify="left" if text else "right", overflow="fold", no_wrap=not text)
    for row in rows.to_dict("records"):
        colors = {"verdict": _COLORS.get(row.get("verdict", ""), "")}
        grid.add_row(*(Text(cell, style=colors.get(name, "")) for name, cell in row.items()))
    return grid


def _html(rows: DataFrame, *, numbers: bool = True) -> Markup:
    """Returns a table for a page; `numbers` are aligned to the right."""
    head = list(map(str, rows.columns))
    aligned = [name for name in head if name not in _TEXT] if numbers else ()
    return Markup(table(head, rows.to_numpy().tolist(), aligned))  # noqa: S704 (escaped there)


def _differing(arms: Iterable[Record]) -> DataFrame | None:
    """Returns the settings in which arms differ; None if there are none."""
    settings = DataFrame([{"arm": arm["arm"], **dict(_settings(arm["task"]))} for arm in arms])
    settings = settings.fillna(NOTHING)
    differing = [name for name in settings.columns[1:] if settings[name].nunique() > 1]
    return settings[["arm", *differing]] if differing else None


def _settings(value: Record) -> Iterable[tuple[str, str]]:
    """Yields nested settings by dotted keys, lists as they are written."""
    for key, each in flat(value, partial(json.dumps, ensure_ascii=False)).items():
        yield key, str(each)


def _yaml(content: Any) -> str:
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)


def _other_metrics(findings: Findings) -> DataFrame | None:
    """Returns the scores by metrics that are not judged; None if there are none."""
    names = [name for name in findings.results.metrics if name != findings.metric]
    columns: dict[str, list[str]] = {"arm": [arm["arm"] for arm in findings.record["arms"]]}
    for name in names:
        found = [arm["others"].get(name, {}) for arm in findings.record["arms"]]
        places = decimals(each.get("mean") for each in found)
        columns[name] = [spread_text(each.get("mean"), each.get("deviation"), places) for each in found]
    return DataFrame(columns) if names else None


def _cells(findings: Findings) -> DataFrame:
    scores = list(dict.fromkeys([*findings.results.metrics, "loss"]))
    cells = findings.results.table().reindex(columns=["arm", "seed", *scores, "failure"])
    cells[scores] = cells[scores].map(lambda score: NOTHING if isna(score) else f"{score:.4f}")
    return cells.fillna("").astype(str).rename(columns={"loss": LOSS})
