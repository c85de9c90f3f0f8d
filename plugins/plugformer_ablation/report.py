"""The report of a study: sentences, tables for a terminal, one page, LaTeX, and files for other programs."""

import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import yaml
from pandas import DataFrame
from rich.console import Console
from rich.table import Table
from rich.text import Text

from plugformer.errors import ConfigurationError, needing
from plugformer.runs import replacing
from plugformer_ablation.arms import BASELINE, label
from plugformer_ablation.comparison import Verdict
from plugformer_ablation.findings import LOSS, Findings
from plugformer_ablation.results import Record, flat
from plugformer_ablation.statistics import POWER
from plugformer_reports.page import render_page, save_figures

NOTHING = "-"
"""Shown where a number does not exist."""

_COARSE = 10.0  # scores above this are in percent or larger: two decimals are enough
_UNLIMITED = 10_000  # columns: more than any line needs


def write_report(findings: Findings, out: Path, notify: Callable[[str], None]) -> list[Path]:
    """Writes the report and returns its files, the page last.

    The page is `report.html`. The other files are `report.json`, `report.csv` (a row for each arm),
    `cells.csv` (a row for each cell), `report.tex`, and the figures as PNG and SVG.

    Args:
        findings: The findings of the study.
        out: A folder; files of earlier reports in it are replaced.
        notify: Receives notices about figures that cannot be drawn.

    Raises:
        RunError: A file cannot be written.
    """
    files: list[Path] = []

    def write(name: str, content: str | bytes) -> None:
        with replacing(out / name) as temporary:
            temporary.write_bytes(content if isinstance(content, bytes) else content.encode())
        files.append(out / name)

    figures: list[Any] = []
    try:
        with needing("figures", "a report with figures"):
            from plugformer_ablation.figures import draw  # imports matplotlib, which takes a second
        with draw(findings, notify) as drawings:
            figures = save_figures(drawings, write)
    except ConfigurationError as error:
        notify(f"the report has no figures: {error}")
    cells = findings.results.table().replace([math.inf, -math.inf], math.nan)  # an empty cell, not "inf"
    write("report.json", json.dumps(findings.record, indent=2, ensure_ascii=False, allow_nan=False))
    write("report.csv", findings.table.to_csv(index=False, lineterminator="\n"))
    write("cells.csv", cells.to_csv(index=False, lineterminator="\n"))
    write("report.tex", latex_table(findings))
    write("report.html", report_page(findings, figures))
    return files


def sentences(findings: Findings) -> list[str]:
    """Returns one sentence for each comparison: the difference, its interval, and what follows from it."""
    return [_sentence(findings, comparison) for comparison in findings.comparisons]


def _sentence(findings: Findings, comparison: Record) -> str:
    arm, baseline = _names(findings, comparison)
    difference, places = comparison["difference"], _score_places(findings)
    reasons = [note for note in comparison["notes"] if "no verdict" in note]
    if difference is None:
        return f"{arm} cannot be compared with {baseline}: {'; '.join(comparison['notes'])}."
    if difference:
        direction = "better" if (difference > 0) == findings.record["higher_is_better"] else "worse"
        points = " points" if places == 2 else ""
        text = f"{arm} is {abs(difference):.{places}f}{points} {direction} than {baseline}"
    else:
        text = f"{arm} scores the same as {baseline}"
    if comparison["low"] is not None:
        low, high = (f"{comparison[end]:.{places}f}" for end in ("low", "high"))
        text += f" ({_percent(comparison['level'])} interval {low} to {high})"
    if comparison["verdict"] == Verdict.NONE:
        return f"{text}: {reasons[-1] if reasons else 'no verdict'}."
    if comparison["verdict"] != Verdict.NOT_DISTINGUISHABLE:
        return f"{text}: a significant difference."
    detectable = comparison["minimum_detectable_difference"]
    limit = "" if detectable is None else f"; this study would have detected {detectable:.{places}f}"
    return f"{text}: no difference shown{limit}."


def _names(findings: Findings, comparison: Record) -> tuple[str, str]:
    """Returns what a sentence calls an arm and its baseline: their values of the only factor that differs."""
    values = {arm["arm"]: arm["values"] for arm in findings.record["arms"]}
    ours, theirs = values[comparison["arm"]], values[comparison["baseline"]]
    differing = [factor for factor in ours if ours[factor] != theirs.get(factor)]
    if len(differing) != 1:
        return comparison["arm"], comparison["baseline"]
    factor = f"{differing[0]} " if len(ours) > 1 else ""
    return f"{factor}{ours[differing[0]]}", theirs[differing[0]]


def heading(findings: Findings) -> str:
    """Returns a line about the metric, the split, the number of seeds and the baseline."""
    direction = "higher" if findings.record["higher_is_better"] else "lower"
    seeds, split = (findings.results.study[key] for key in ("seeds", "split"))
    count = f"{len(seeds)} seeds" if len(seeds) > 1 else "one seed"
    baseline = findings.record["arms"][0]["arm"]
    if baseline == BASELINE:
        values = findings.record["arms"][0]["values"]
        baseline = ", ".join(f"{factor} {value}" for factor, value in values.items())
    return f"{findings.metric} on {split}, {direction} is better; {count}; baseline: {baseline}"


def explanation(findings: Findings) -> list[str]:
    """Returns an explanation of the numbers."""
    lines = ["± is the standard deviation over seeds."] if len(findings.results.study["seeds"]) > 1 else []
    if not findings.comparisons:
        return lines
    number, corrected, together = len(findings.comparisons), "", ""
    if number > 1:
        corrected = f" (it is multiplied by {number}, the number of comparisons)"
        together = f": all {number} together hold with 95 %"
    return [
        *lines,
        "A difference is the arm's mean minus the baseline's, over pairs of the same seed.",
        f"The {_percent(findings.comparisons[0]['level'])} interval covers the variation over seeds and test "
        f"examples{together}. An arm is better or worse where it excludes 0, which is where p is below "
        f"0.05{corrected}.",
        "The minimum detectable difference (MDD) is the smallest true difference that this study finds with "
        f"a power of {100 * POWER:.0f} % at its corrected level; smaller ones may exist.",
    ]


def remarks(findings: Findings) -> list[str]:
    """Returns the choices of tuning, and remarks on single arms: mismatches, failures, missing tests."""
    arms, tuned = findings.record["arms"], findings.results.study.get("tune", {})
    lines = [line for path, values in tuned.items() for line in _chosen(arms, path, values)]
    notes = {comparison["arm"]: comparison["notes"] for comparison in findings.comparisons}
    for arm in arms:
        failed = sorted((int(seed), reason) for seed, reason in arm["failed"].items())
        lines += [f"{arm['arm']}: {'; '.join(arm['remarks'])}"] if arm["remarks"] else []
        lines += [f"{arm['arm']}: seed {seed} failed: {reason}" for seed, reason in failed]
        lines += [f"{arm['arm']}: {note}" for note in notes.get(arm["arm"], ())]
    return lines


def _chosen(arms: Sequence[Record], path: str, values: Sequence[Any]) -> Iterator[str]:
    """Yields a sentence on the value that tuning chose for each arm, and on choices at the grid's edge."""
    chosen = {arm["arm"]: arm["tuned"][path] for arm in arms if arm["cells"]}
    if not chosen:  # every trial failed
        return
    names: dict[str, list[str]] = {}
    for arm, value in chosen.items():
        names.setdefault(label(value), []).append(arm)
    choices = "; ".join(
        f"{value} for {'every arm' if len(takers) == len(arms) else ', '.join(takers)}"
        for value, takers in names.items()
    )
    edges = []
    if len(values) > 1 and all(type(value) in (int, float) for value in values):
        ends = {"smallest": min(values), "largest": max(values)}
        edges = [f"the {name}" for name, end in ends.items() if end in chosen.values()]
    beyond = f": {' and '.join(edges)} of those tried, a better one may lie beyond" if edges else ""
    yield f"tuning chose {path} {choices}{beyond}"


def report_text(findings: Findings, width: int | None) -> str:
    """Returns the report as text.

    Args:
        findings: The findings of the study.
        width: Columns of the terminal; None for a file or a pipe: lines are as long as they need to be, and
            there are no colors.
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
    scores = arms_table(findings)[["arm", findings.metric, LOSS, "parameters", "tokens/s"]]
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in scores.columns:
        justify, numeric = ("left", False) if name == "arm" else ("right", True)
        grid.add_column(Text(name), justify=justify, overflow="fold", no_wrap=numeric)  # type: ignore[arg-type]
    for row in scores.to_numpy().tolist():
        grid.add_row(*map(Text, row))
    console.print(Text(str(findings.record["study"]["study"]), style="bold"))
    console.print(heading(findings))
    styles = {Verdict.BETTER: "green", Verdict.WORSE: "red"}
    verdicts = [
        Text(sentence, styles.get(comparison["verdict"], ""))
        for sentence, comparison in zip(sentences(findings), findings.comparisons, strict=True)
    ]
    notes, explanations = map("\n".join, (remarks(findings), explanation(findings)))
    for block in ([grid], verdicts, [Text(notes)] if notes else [], [Text(explanations, "dim")]):
        if block:
            console.print()
        for line in block:
            console.print(line)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def latex_table(findings: Findings) -> str:
    """Returns a tabular environment after comments that explain it; its document needs booktabs."""
    arms, comparisons = arms_table(findings), comparisons_table(findings)
    table = arms[["arm", findings.metric, LOSS, "parameters"]]
    if len(comparisons):
        names = [
            "difference",
            f"{_level(findings)} interval",
            "p",
            "verdict",
            "minimum detectable difference",
        ]
        beside = comparisons.set_index("arm").reindex(table["arm"])[names].reset_index(drop=True)
        table = table.join(beside.rename(columns={names[-1]: "MDD"})).fillna("")
    latex = table.to_latex(index=False, escape=True, column_format="lrrrrrrlr"[: len(table.columns)])
    latex = re.sub(r"(?<![\w.])-(?=\d)", "$-$", latex.replace("<", "$<$").replace(">", "$>$"))
    lines = [findings.record["study"]["study"], heading(findings), *explanation(findings)]
    comments = "\n".join(f"% {' '.join(line.split())}" for line in (*lines, "needs \\usepackage{booktabs}"))
    return f"{comments}\n{latex}"


def report_page(findings: Findings, figures: Sequence[Mapping[str, Any]]) -> str:
    """Returns `report.html`: a whole study on one page, which needs no network and no other file.

    Args:
        findings: The findings of the study.
        figures: Its figures; see `save_figures`.
    """
    arms, results = findings.record["arms"], findings.results
    scores, comparisons = arms_table(findings), comparisons_table(findings)
    known = scores[scores["parameters"] != NOTHING]
    columns = {
        "scores": (scores, ["arm", "cells", findings.metric, "95 % interval", LOSS]),
        "costs": (known, ["arm", *scores.columns[scores.columns.get_loc("parameters") :]]),
    }
    if len(comparisons):
        names = list(comparisons.columns)
        split = names.index("minimum detectable difference") + 1
        columns |= {
            "comparisons": (comparisons, names[:split]),
            "errors": (comparisons, ["arm", *names[split:]]),
        }
    tables = {name: _rows(frame[chosen]) for name, (frame, chosen) in columns.items()}
    return render_page(
        "plugformer_ablation",
        "report.html",
        title=str(results.study["study"]),
        heading=heading(findings),
        sentences=sentences(findings),
        figures=figures,
        remarks=remarks(findings),
        explanation=explanation(findings),
        differing=_differing(arms),
        tasks={arm["arm"]: _yaml(arm["task"]) for arm in arms},
        study=_yaml(results.study),
        others=_other_metrics(findings),
        cells=_rows(_cells(findings)),
        ingredients=list(_settings(results.made_of).items()),
        **tables,
    )


def html_tables(findings: Findings) -> str:
    """Returns sentences, scores and verdicts as HTML, for a notebook."""
    lines = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences(findings))
    scores = arms_table(findings)[["arm", "cells", findings.metric, "95 % interval", LOSS, "parameters"]]
    comparisons = comparisons_table(findings).iloc[:, :6]
    tables = [frame.to_html(index=False, border=0) for frame in (scores, comparisons) if len(frame)]
    return f"<p>{escape(heading(findings))}</p><ul>{lines}</ul>{''.join(tables)}"


def arms_table(findings: Findings) -> DataFrame:
    """Returns scores and costs as text: a row for each arm."""
    arms, seeds = findings.record["arms"], len(findings.results.study["seeds"])
    places, loss_places = _score_places(findings), _places(arm["loss"] for arm in arms)

    def row(arm: Record) -> dict[str, str]:
        cost = arm["cost"] or {}
        flops = cost.get("flops_per_token")
        return {
            "arm": arm["arm"],
            "cells": f"{arm['cells']} of {seeds}",
            findings.metric: _spread(arm["score"], places),
            "95 % interval": _interval(arm["score"], places),
            LOSS: _spread(arm["loss"], loss_places),
            "parameters": _number(cost.get("parameters"), ","),
            "MFLOPs/token, forward": NOTHING if flops is None else f"{flops / 1e6:#.4g}",
            "peak memory in MB": _number(cost.get("peak_memory_mb"), ",.0f"),
            "tokens/s": _number(cost.get("tokens_per_second"), ",.0f"),
            "seconds": _number(cost.get("seconds"), ",.0f"),
        }

    return DataFrame(map(row, arms))


def comparisons_table(findings: Findings) -> DataFrame:
    """Returns verdicts, tests and standard errors as text: a row for each comparison."""
    places = _score_places(findings)
    loss_places = _places(arm["loss"] for arm in findings.record["arms"])

    def row(comparison: Record) -> dict[str, str]:
        p, loss = comparison["p"]["corrected"], comparison["loss_difference"]
        of_loss = f"{_number(loss['mean'], f'.{loss_places}f')} {_interval(loss, loss_places)}"
        return {
            "arm": comparison["arm"],
            "verdict": comparison["verdict"],
            "difference": _number(comparison["difference"], f".{places}f"),
            f"{_level(findings)} interval": _interval(comparison, places),
            "p": "<0.001" if p is not None and p < 0.001 else _number(p, ".3f"),
            "minimum detectable difference": _number(
                comparison["minimum_detectable_difference"], f".{places}f"
            ),
            **{
                f"standard error, {name}": _number(error, f".{places}f")
                for name, error in comparison["standard_error"].items()
            },
            "effect size d_z": _number(comparison["effect_size_dz"], ".2f"),
            f"{LOSS}, 95 % interval": NOTHING if loss["mean"] is None else of_loss,
        }

    return DataFrame(map(row, findings.comparisons))


def _level(findings: Findings) -> str:
    return _percent(findings.comparisons[0]["level"])


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def _number(value: float | None, form: str) -> str:
    return NOTHING if value is None else f"{value:{form}}"


def _interval(summary: Record | None, places: int) -> str:
    if summary is None or summary["low"] is None:
        return NOTHING
    return f"[{summary['low']:.{places}f}, {summary['high']:.{places}f}]"


def _spread(summary: Record | None, places: int) -> str:
    """Returns mean and standard deviation."""
    if summary is None:
        return "failed"
    mean, deviation = f"{summary['mean']:.{places}f}", summary["deviation"]
    return mean if deviation is None else f"{mean} ± {deviation:.{places}f}"


def _score_places(findings: Findings) -> int:
    return _places(arm["score"] for arm in findings.record["arms"])


def _places(summaries: Iterable[Record | None]) -> int:
    """Returns the number of decimals of a column of scores."""
    return 2 if any(summary and abs(summary["mean"]) > _COARSE for summary in summaries) else 4


def _rows(frame: DataFrame) -> tuple[list[str], list[list[str]]]:
    return list(map(str, frame.columns)), frame.to_numpy().tolist()


def _differing(arms: Iterable[Record]) -> tuple[list[str], list[list[str]]] | None:
    """Returns the settings in which arms differ; None if there are none."""
    settings = DataFrame([{"arm": arm["arm"], **_settings(arm["task"])} for arm in arms]).fillna(NOTHING)
    differing = [name for name in settings.columns[1:] if settings[name].nunique() > 1]
    return _rows(settings[["arm", *differing]]) if differing else None


def _settings(record: Record) -> dict[str, str]:
    """Returns nested settings by dotted keys, as text."""
    return {
        key: json.dumps(value, ensure_ascii=False) if isinstance(value, list | tuple) else str(value)
        for key, value in flat(record).items()
    }


def _yaml(content: Any) -> str:
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)


def _other_metrics(findings: Findings) -> tuple[list[str], list[list[str]]] | None:
    """Returns the scores by metrics that are not judged; None if there are none."""
    arms = findings.record["arms"]
    names = [name for name in findings.results.metrics if name != findings.metric]
    columns: dict[str, list[str]] = {"arm": [arm["arm"] for arm in arms]}
    for name in names:
        summaries = [arm["others"].get(name) for arm in arms]
        columns[name] = [_spread(summary, _places(summaries)) for summary in summaries]
    return _rows(DataFrame(columns)) if names else None


def _cells(findings: Findings) -> DataFrame:
    scores = list(dict.fromkeys([*findings.results.metrics, "loss"]))
    cells = findings.results.table().reindex(columns=["arm", "seed", *scores, "failure"])
    cells[scores] = cells[scores].map(lambda score: NOTHING if math.isnan(score) else f"{score:.4f}")
    return cells.fillna("").astype(str).rename(columns={"loss": LOSS})
