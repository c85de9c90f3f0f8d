"""The report of a study: sentences, tables for a terminal, one page, and files for other programs."""

import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import zip_longest
from pathlib import Path
from typing import Any

import yaml
from pandas import DataFrame
from rich.console import Console
from rich.table import Table
from rich.text import Text

from plugformer.errors import PlugformerError, described, needing
from plugformer_ablation.design.study import flat
from plugformer_ablation.judging.comparison import Verdict
from plugformer_ablation.judging.contrasts import differs
from plugformer_ablation.judging.findings import LOSS, Findings
from plugformer_ablation.judging.results import Record, write
from plugformer_ablation.reporting.currency_sentences import currency_sentences
from plugformer_ablation.reporting.paper import paper_files
from plugformer_ablation.reporting.sentences import (
    UPDATE,
    contrast_sentences,
    decimal,
    decimals,
    explanation,
    heading,
    overall_sentences,
    percent,
    remarks,
    sentences,
    updates,
)
from plugformer_cli.page import render_page, save_figures

NOTHING = "-"
"""Shown where a number does not exist."""

FEW = 6
"""Comparisons or contrasts that a terminal gets in sentences; more are a table, or those that differ."""

MOST_REMARKS, MOST_ROWS = 10, 40
"""Remarks, and comparisons in a table, on a terminal."""

_STYLES = {Verdict.BETTER: "green", Verdict.WORSE: "red"}

Rows = tuple[list[str], list[list[str]]]
"""The names of columns, and rows of text."""


class StudyReport:
    """A study judged: its findings in sentences and tables, on a terminal, in a notebook and in files.

    Args:
        findings: What the study has found.
    """

    def __init__(self, findings: Findings) -> None:
        self.findings = findings

    def __repr__(self) -> str:
        return self.text(None)

    def _repr_html_(self) -> str:
        """Returns sentences, scores and verdicts, for a notebook."""
        findings = self.findings
        lines = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences(findings))
        scores, comparisons = arms_table(findings).iloc[:, :6], comparisons_table(findings).iloc[:, :5]
        tables = [frame.to_html(index=False, border=0) for frame in (scores, comparisons) if len(frame)]
        return f"<p>{escape(heading(findings))}</p><ul>{lines}</ul>{''.join(tables)}"

    def write(self, out: Path, notify: Callable[[str], None]) -> list[Path]:
        """Writes the report and returns its files, the page last.

        The page is `report.html`. The other files are `report.json` and `cells.npz`, from which the report
        can be written again, `report.csv` (a row for each arm), `cells.csv` (a row for each cell), for a
        paper `table.tex`, `table.md` and `methods.txt`, and the figures as PNG and SVG. Figures come last:
        where one cannot be drawn, `notify` hears why, and everything else is there.

        Files of earlier reports are replaced. Raises RunError if a file cannot be written.
        """
        files: list[Path] = []

        def add(name: str, content: str | bytes) -> None:
            write(out / name, content)
            files.append(out / name)

        results = self.findings.results.moved()
        for name, content in results.files(self.findings.record).items():
            add(name, content)
        cells = results.table().replace([math.inf, -math.inf], math.nan)  # an empty cell, not "inf"
        add("report.csv", self.findings.table.to_csv(index=False, lineterminator="\n"))
        add("cells.csv", cells.to_csv(index=False, lineterminator="\n"))
        for name, text in paper_files(self.findings, paper_table(self.findings)).items():
            add(name, text)
        add("report.html", self._page(self._figures(add, notify)))
        return files

    def _figures(
        self, add: Callable[[str, bytes], None], notify: Callable[[str], None]
    ) -> list[Mapping[str, Any]]:
        """Writes the figures, as far as they can be drawn, and returns them for the page."""
        figures: list[Mapping[str, Any]] = []
        try:
            with needing("figures", "a report with figures"):
                from plugformer_ablation.reporting.figures import draw  # and matplotlib, in a second
            with draw(self.findings, notify) as drawings:
                for drawing in drawings:
                    figures += save_figures([drawing], add)
        except Exception as error:  # whatever it is, the report is more than its figures
            reason = str(error) if isinstance(error, PlugformerError) else described(error)
            notify(f"the report lacks figures: {reason}")
        return figures

    def text(self, width: int | None) -> str:
        """Returns the report as text for a terminal of a width, or None: no colors, and no line is broken."""
        findings, file = self.findings, io.StringIO()
        console = Console(
            file=file, width=width or 10_000, force_terminal=width is not None, highlight=False, markup=False
        )
        ranked, speedups = _ranked(findings), currency_sentences(findings)
        shown = {each[side] for each in ranked[:MOST_ROWS] for side in ("arm", "baseline")}
        scores = arms_table(findings)[["arm", findings.metric, LOSS, "parameters", UPDATE]]
        scores = scores[scores["arm"].isin(shown)] if ranked else scores
        console.print(Text(str(findings.record["study"]["study"]), style="bold"))
        console.print(heading(findings), "", _grid(scores, []), "", sep="\n")
        styles = [_STYLES.get(comparison["verdict"], "") for comparison in ranked]
        if len(ranked) > FEW:
            console.print(_grid(verdicts_table(findings)[:MOST_ROWS], styles[:MOST_ROWS]))
            if len(ranked) > MOST_ROWS:
                console.print(f"{len(ranked) - MOST_ROWS} more comparisons in report.html")
            speedups = speedups[len(ranked) :]
        else:
            for sentence, style in zip(sentences(findings), styles, strict=True):
                console.print(Text(sentence, style))
        more = remarks(findings)
        if len(more) > MOST_REMARKS:
            more[MOST_REMARKS:] = [f"{len(more) - MOST_REMARKS} more remarks in report.html"]
        parts = (overall_sentences(findings), speedups, _contrasts(findings), more, explanation(findings))
        for lines in filter(None, parts):
            console.print("", *lines, sep="\n")
        return "\n".join(line.rstrip() for line in file.getvalue().splitlines())

    def _page(self, figures: Sequence[Mapping[str, Any]]) -> str:
        """Returns `report.html`: a whole study on one page, which needs no network and no other file."""
        findings, results = self.findings, self.findings.results
        arms = findings.record["arms"]
        scores, comparisons = arms_table(findings), comparisons_table(findings)
        tables = {
            "scores": _rows(scores[["arm", "cells", findings.metric, "95 % interval", LOSS]]),
            "costs": _rows(scores[["arm", *scores.columns[5:10]]]),
            "updates": _rows(scores[["arm", *scores.columns[10:]]]) if updates(findings) else None,
        }
        if len(comparisons):
            tables["comparisons"] = _rows(comparisons.iloc[:, :5])
            tables["errors"] = _rows(comparisons[["arm", *comparisons.columns[5:]]])
        settings = DataFrame([{"arm": arm["arm"], **_settings(arm["task"])} for arm in arms]).fillna(NOTHING)
        differing = [name for name in settings.columns[1:] if settings[name].nunique() > 1]
        metrics = dict.fromkeys(name for known in results.metrics.values() for name in known)
        more = dict.fromkeys(name for arm in arms for name in arm["others"])
        others = {name: [_spread(arm["others"].get(name), 4) for arm in arms] for name in more}
        names = list(dict.fromkeys([*metrics, "loss"]))
        cells = results.table().reindex(columns=["arm", "seed", *names, "failure"])
        cells[names] = cells[names].map(lambda score: NOTHING if math.isnan(score) else decimal(score, 4))
        return render_page(
            "plugformer_ablation.reporting",
            "report.html",
            title=str(results.study["study"]),
            heading=heading(findings),
            sentences=sentences(findings),
            ranking=_rows(verdicts_table(findings)) if len(comparisons) > FEW else None,
            many=len(arms) > MOST_ROWS,
            overall=overall_sentences(findings),
            currency=currency_sentences(findings),
            contrasts=contrast_sentences(findings),
            figures=figures,
            remarks=remarks(findings),
            explanation=explanation(findings),
            differing=_rows(settings[["arm", *differing]]) if differing else None,
            tasks={
                arm["arm"]: yaml.safe_dump(arm["task"], sort_keys=False, allow_unicode=True) for arm in arms
            },
            study=yaml.safe_dump(results.study, sort_keys=False, allow_unicode=True),
            others=_rows(DataFrame({"arm": scores["arm"], **others})) if others else None,
            cells=_rows(cells.fillna("").astype(str).rename(columns={"loss": LOSS})),
            ingredients=list(_settings(results.made_of).items()),
            **tables,
        )


def arms_table(findings: Findings) -> DataFrame:
    """Returns scores and costs as text: a row for each arm."""
    planned = len(findings.results.study["looks"]) > 1  # a decided arm is trained with fewer seeds

    def row(arm: Record) -> dict[str, str]:
        cost, places = arm["cost"], decimals(findings, arm["arm"])
        update, cells, failed = cost.get("update"), arm["cells"], len(arm["failed"])
        return {
            "arm": arm["arm"],
            "cells": f"{cells} of {cells + failed}" if failed or not planned else f"{cells}",
            findings.metric: _spread(arm["score"], places),
            "95 % interval": _interval(arm["score"], places),
            LOSS: _spread(arm["loss"], 4),
            "parameters": _number(cost.get("parameters"), ","),
            "products, MFLOPs/token": _millions(cost.get("flops")),
            "other elements, M/token": _millions(cost.get("elements")),
            "peak memory in MB": _number(cost.get("peak_memory_mb"), ",.0f"),
            "training in seconds": _number(cost.get("seconds"), ",.0f"),
            UPDATE: "{ratio:.2f} [{low:.2f}, {high:.2f}]".format(**update) if update else NOTHING,
            "verdict": update["verdict"] if update and arm["baseline"] else NOTHING,
        }

    return DataFrame(map(row, findings.record["arms"]))


def paper_table(findings: Findings) -> DataFrame:
    """Returns a row for each arm as text: score, difference with its interval, p and verdict."""
    arms, comparisons = arms_table(findings), comparisons_table(findings)
    several = ["cells"] * (arms["cells"].nunique() > 1)
    scores = arms[["arm", *several, findings.metric]]
    if not len(comparisons):
        return scores
    return scores.merge(comparisons.iloc[:, :5], how="left", on="arm").fillna(NOTHING)


def verdicts_table(findings: Findings) -> DataFrame:
    """Returns verdicts, what would decide, and speedups as text: a row for each comparison, many ranked."""
    ranked = _ranked(findings)

    def row(comparison: Record) -> dict[str, str]:
        needed, speedup = comparison["would_decide"] or {}, comparison["speedup"]
        told = (f"{number:,} {unit}" for unit, number in needed.items() if number is not None)
        ratio = speedup.get("tokens") or speedup.get("updates")
        form = "{ratio:.3g} [{low:.3g}, {high:.3g}]" if ratio and ratio["low"] is not None else "{ratio:.3g}"
        return {
            "would decide": next(told, NOTHING),
            "speedup": form.format(**ratio) if ratio else NOTHING,  # of few seeds the ends may be far away
        }

    table = comparisons_table(findings).iloc[:, [0, 1, 2, 4]].set_index("arm", drop=False)
    order = [comparison["arm"] for comparison in ranked]
    return table.loc[order].reset_index(drop=True).join(DataFrame(map(row, ranked)))


def _ranked(findings: Findings) -> list[Record]:
    """Returns the comparisons, of more than a terminal has room for the best ones first."""

    def loss(comparison: Record) -> float:
        sign = -1 if comparison["higher_is_better"] else 1
        return math.inf if comparison["difference"] is None else sign * float(comparison["difference"])

    many = len(findings.comparisons) > MOST_ROWS
    return sorted(findings.comparisons, key=loss) if many else findings.comparisons


def comparisons_table(findings: Findings) -> DataFrame:
    """Returns verdicts, tests and standard errors as text: a row for each comparison."""
    metrics = dict.fromkeys(name for comparison in findings.comparisons for name in comparison["further"])
    levels = {comparison["level"] for comparison in findings.comparisons}  # with several looks, more than one

    def row(comparison: Record) -> dict[str, str]:
        places, level = decimals(findings, comparison["arm"]), percent(comparison["level"])
        name, end = (f"{level} interval", "") if len(levels) == 1 else ("interval", f" ({level})")
        p, loss = comparison["p"]["corrected"], comparison["loss_difference"]
        errors = comparison["standard_error"].items()
        return {
            "arm": comparison["arm"],
            "difference": _score(comparison["difference"], places),
            name: _interval(comparison, places) + end,
            "p": "<0.001" if p is not None and p < 0.001 else _number(p, ".3f"),
            "verdict": comparison["verdict"],
            **{f"standard error, {name}": _score(error, places) for name, error in errors},
            "effect size d_z": _number(comparison["effect_size_dz"], ".2f"),
            f"{LOSS}, 95 % interval": f"{_score(loss['mean'], 4)} {_interval(loss, 4)}",
            "examples better, worse, same": _counts(comparison["examples"]),
            **{f"{each}, further": _further(comparison["further"].get(each)) for each in metrics},
        }

    return DataFrame(map(row, findings.comparisons))


def _grid(frame: DataFrame, styles: Sequence[str]) -> Table:
    """Returns a table for a terminal; no number in it is broken."""
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in frame.columns:
        is_number = name not in ("arm", "verdict")
        grid.add_column(Text(name), justify="right" if is_number else "left", no_wrap=is_number)
    for row, style in zip_longest(frame.to_numpy().tolist(), styles, fillvalue=""):
        grid.add_row(*map(Text, row), style=style)
    return grid


def _contrasts(findings: Findings) -> list[str]:
    """Returns sentences on contrasts; of many only on those that differ from 0."""
    lines = contrast_sentences(findings)
    contrasts = zip(lines, findings.record["contrasts"], strict=True)
    told = [line for line, each in contrasts if differs(each)]
    if len(lines) <= FEW:
        return lines
    return [*told, f"{len(lines) - len(told)} contrasts are not shown to differ from 0: report.html has them"]


def _counts(examples: Record | None) -> str:
    return ", ".join(f"{number:,}" for number in examples.values()) if examples else NOTHING


def _further(difference: Record | None) -> str:
    """Returns the difference in a further metric, with its interval."""
    return f"{_score(difference['difference'], 4)} {_interval(difference, 4)}" if difference else NOTHING


def _number(value: float | None, form: str) -> str:
    return NOTHING if value is None else f"{value:{form}}"


def _score(value: float | None, places: int) -> str:
    return NOTHING if value is None else decimal(value, places)


def _millions(value: float | None) -> str:
    return NOTHING if value is None else f"{value / 1e6:#.4g}"


def _interval(summary: Record | None, places: int) -> str:
    if summary is None or summary["low"] is None:
        return NOTHING
    return f"[{decimal(summary['low'], places)}, {decimal(summary['high'], places)}]"


def _spread(summary: Record | None, places: int) -> str:
    """Returns mean and standard deviation."""
    if summary is None:
        return "failed"
    mean, deviation = decimal(summary["mean"], places), summary["deviation"]
    return mean if deviation is None else f"{mean} ± {decimal(deviation, places)}"


def _rows(frame: DataFrame) -> Rows:
    return list(map(str, frame.columns)), frame.to_numpy().tolist()


def _settings(record: Record) -> dict[str, str]:
    """Returns nested settings by dotted keys, as text."""
    return {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for key, value in flat(record).items()
    }
