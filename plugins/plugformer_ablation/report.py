"""The report of a study: sentences, tables for a terminal, one page, and files for other programs."""

import io
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import yaml
from pandas import DataFrame
from rich.console import Console
from rich.table import Table
from rich.text import Text

from plugformer.errors import PlugformerError, described, needing
from plugformer_ablation.arms import BASELINE, label
from plugformer_ablation.comparison import Verdict
from plugformer_ablation.costs import BLOCK, ROUNDS
from plugformer_ablation.findings import LOSS, Findings
from plugformer_ablation.matching import TOLERANCE
from plugformer_ablation.results import Record, flat, write
from plugformer_ablation.statistics import POWER
from plugformer_reports.page import render_page, save_figures

NOTHING = "-"
"""Shown where a number does not exist."""

UPDATE = "time of an update"
"""What reports call the cost of an arm's updates relative to the baseline's."""

BUSY = 0.1
"""Largest share of waiting at which a machine does not count as busy."""

Rows = tuple[list[str], list[list[str]]]
"""The names of columns, and rows of text."""


def write_report(findings: Findings, out: Path, notify: Callable[[str], None]) -> list[Path]:
    """Writes the report and returns its files, the page last.

    The page is `report.html`. The other files are `report.json` and `cells.npz`, from which the report can be
    written again, `report.csv` (a row for each arm), `cells.csv` (a row for each cell), and the figures as
    PNG and SVG. Figures come last: where one cannot be drawn, `notify` hears why, and everything else is
    there.

    Files of earlier reports are replaced. Raises RunError if a file cannot be written.
    """
    files: list[Path] = []

    def add(name: str, content: str | bytes) -> None:
        write(out / name, content)
        files.append(out / name)

    results = findings.results.moved()
    for name, content in results.files(findings.record).items():
        add(name, content)
    cells = results.table().replace([math.inf, -math.inf], math.nan)  # an empty cell, not "inf"
    add("report.csv", findings.table.to_csv(index=False, lineterminator="\n"))
    add("cells.csv", cells.to_csv(index=False, lineterminator="\n"))
    write(out / "report.html", report_page(findings, []))
    add("report.html", report_page(findings, _figures(findings, add, notify)))
    return files


def _figures(
    findings: Findings, add: Callable[[str, bytes], None], notify: Callable[[str], None]
) -> list[Mapping[str, Any]]:
    """Writes the figures, as far as they can be drawn, and returns them for the page."""
    figures: list[Mapping[str, Any]] = []
    try:
        with needing("figures", "a report with figures"):
            from plugformer_ablation.figures import draw  # imports matplotlib, which takes a second
        with draw(findings, notify) as drawings:
            for drawing in drawings:
                figures += save_figures([drawing], add)
    except Exception as error:  # whatever it is, the report is more than its figures
        reason = str(error) if isinstance(error, PlugformerError) else described(error)
        notify(f"the report lacks figures: {reason}")
    return figures


def sentences(findings: Findings) -> list[str]:
    """Returns one sentence for each comparison: the difference, its interval, and what follows from it."""
    return [_sentence(findings, comparison) for comparison in findings.comparisons]


def _sentence(findings: Findings, comparison: Record) -> str:
    arm, baseline = _names(findings, comparison)
    arm += _other_size(comparison)
    difference, places = comparison["difference"], _places(findings)
    if difference is None:
        reasons = dict.fromkeys([*comparison["notes"], *_failures(findings, comparison)])
        return f"{arm} cannot be compared with {baseline}: {'; '.join(reasons)}."
    direction = "better" if (difference > 0) == findings.record["higher_is_better"] else "worse"
    text = f"{arm} is {abs(difference):.{places}f} {direction} than {baseline}"
    if comparison["pairs"] == 1:
        text = f"{arm} and {baseline} differ by {difference:.{places}f}"
    if difference == 0:
        text = f"{arm} scores the same as {baseline}"
    if comparison["low"] is not None:
        low, high = (f"{comparison[end]:.{places}f}" for end in ("low", "high"))
        covered = " over test examples alone" if comparison["pairs"] == 1 else ""
        text += f" ({_percent(comparison['level'])} interval{covered} {low} to {high})"
    more = (*_failures(findings, comparison), *_edges(findings, comparison))
    return "; ".join([f"{text}: {_conclusion(comparison, places)}", *more]) + "."


def _conclusion(comparison: Record, places: int) -> str:
    """Returns what follows from a difference and its interval."""
    if comparison["verdict"] == Verdict.NONE:
        return next((str(note) for note in comparison["notes"] if "no verdict" in note), "no verdict")
    if comparison["verdict"] != Verdict.NOT_DISTINGUISHABLE:
        return "a significant difference"
    detectable = comparison["minimum_detectable_difference"]
    limit = "" if detectable is None else f"; this study would have detected {detectable:.{places}f}"
    return f"no difference shown{limit}"


def _failures(findings: Findings, comparison: Record) -> Iterator[str]:
    """Yields what a sentence says of cells that failed."""
    if any(comparison["failed_seeds"].values()):
        yield comparison["notes"][0]
        failed = {arm["arm"] for arm in findings.record["arms"] if arm["failed"]}
        if failed & {comparison["arm"], comparison["baseline"]}:
            yield "the same command trains failed cells again"


def _edges(findings: Findings, comparison: Record) -> Iterator[str]:
    """Yields which side has a tuned setting at an end of the values tried."""
    edges = {arm["arm"]: arm["edges"] for arm in findings.record["arms"]}
    sides: dict[tuple[str, str], list[str]] = defaultdict(list)
    for side, name in zip(("arm", "baseline"), _names(findings, comparison), strict=True):
        for path, end in edges[comparison[side]].items():
            sides[path, end].append(name)
    for (path, end), names in sides.items():
        yield f"{' and '.join(names)} took the {end} {path} that was tried"


def _other_size(comparison: Record) -> str:
    """Returns what a sentence adds to an arm that has more or fewer parameters than its baseline."""
    arm, baseline = (comparison["parameters"][side] for side in ("arm", "baseline"))
    if abs(arm - baseline) <= TOLERANCE * baseline:
        return ""
    more = "more" if arm > baseline else "fewer"
    share = abs(arm / baseline - 1)
    return f", with {100 * share:.0f} % {more} parameters ({arm:,} for {baseline:,}),"


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
    if (looks := len(findings.looks)) > 1:
        count += f" (look {looks} at this study)"
    baseline = findings.record["arms"][0]["arm"]
    if baseline == BASELINE:
        values = findings.record["arms"][0]["values"]
        baseline = ", ".join(f"{factor} {value}" for factor, value in values.items())
    return f"{findings.metric} on {split}, {direction} is better; {count}; baseline: {baseline}"


def explanation(findings: Findings) -> list[str]:
    """Returns an explanation of the numbers."""
    lines = ["± is the standard deviation over seeds."] if len(findings.results.study["seeds"]) > 1 else []
    level = next((_percent(comparison["level"]) for comparison in findings.comparisons), "")
    if level and len(findings.results.study["seeds"]) == 1:
        lines.append(
            f"A difference is the arm's score minus the baseline's. The {level} interval covers test "
            "examples alone: how much seeds differ is unknown, so that there is no verdict."
        )
    elif level:
        lines += [
            "A difference is the arm's mean minus the baseline's, over pairs of the same seed.",
            f"The {level} interval covers the variation over seeds and test examples; all of them (here "
            f"{len(findings.comparisons)}) hold together with 95 %. An arm is better or worse where it "
            "excludes 0, which is where p, multiplied by the number of comparisons, is below 0.05. A verdict "
            "in favor of a side also needs all of its seeds.",
            "The minimum detectable difference (MDD) is the smallest true difference that this study finds "
            f"with a power of {100 * POWER:.0f} % at its corrected level; smaller ones may exist.",
        ]
    if _updates(findings):
        lines.append(
            f"The {UPDATE} is relative to the baseline's. Arms ran blocks of {BLOCK} updates in turn; it is "
            f"the median of the ratios of {ROUNDS} rounds, with a 95 % interval (a bootstrap over rounds)."
        )
    return lines


def remarks(findings: Findings) -> list[str]:
    """Returns the choices of tuning, and remarks on single arms: mismatches, failures, missing tests."""
    arms, lines = findings.record["arms"], []
    for path in findings.results.study.get("tune", {}):
        chosen: dict[tuple[str, str], list[str]] = defaultdict(list)
        for arm in arms:
            if arm["cells"]:
                chosen[label(arm["tuned"][path]), arm["edges"].get(path, "")].append(arm["arm"])
        choices = [
            f"{value} for {', '.join(takers)}"
            + (f" (the {end} of those tried, a better one may lie beyond)" if end else "")
            for (value, end), takers in chosen.items()
        ]
        lines += [f"tuning chose {path} {'; '.join(choices)}"] if choices else []
    lines += _selection(findings)
    notes = {comparison["arm"]: comparison["notes"] for comparison in findings.comparisons}
    for arm in arms:
        failed = sorted((int(seed), reason) for seed, reason in arm["failed"].items())
        lines += [f"{arm['arm']}: {'; '.join(arm['remarks'])}"] if arm["remarks"] else []
        lines += [f"{arm['arm']}: seed {seed} failed: {reason}" for seed, reason in failed]
        lines += [f"{arm['arm']}: {note}" for note in notes.get(arm["arm"], ())]
    if len(findings.looks) > 1:
        counts = ", ".join(str(len(look["seeds"])) for look in findings.looks)
        lines.append(
            f"look {len(findings.looks)} at this study ({counts} seeds): the level of 95 % holds for one "
            "look only"
        )
    waiting = max((update["waiting"] for update in _updates(findings)), default=0.0)
    if waiting > BUSY:
        lines.append(f"the machine was busy: an arm had no processor for {waiting:.0%} of its time")
    return lines


def _selection(findings: Findings) -> Iterator[str]:
    """Yields a remark if the split of the verdict has also chosen which parameters of a training are kept."""
    losses = [(cell.loss, [point["loss"] for point in cell.curve]) for cell in findings.results.cells]
    chosen = any(len(curve) > 1 and loss in curve for loss, curve in losses)  # an average is not chosen
    if chosen and findings.results.study["split"] == "validation":
        monitor = findings.record["arms"][0]["task"].get("training", {}).get("monitor", "loss")
        yield (
            "validation decides here and also chose the checkpoint of every training (the best evaluation by "
            f"{monitor}), so that scores are slightly too good"
        )


def _updates(findings: Findings) -> list[Record]:
    """Returns what updates cost, of the arms of which it was measured."""
    costs = [arm["cost"].get("update") for arm in findings.record["arms"]]
    return [update for update in costs if update]


def report_text(findings: Findings, width: int | None) -> str:
    """Returns the report as text for a terminal of a width, or None: no colors, and no line is broken."""
    file = io.StringIO()
    console = Console(
        file=file, width=width or 10_000, force_terminal=width is not None, highlight=False, markup=False
    )
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    scores = arms_table(findings)[["arm", findings.metric, LOSS, "parameters", UPDATE]]
    for name in scores.columns:
        is_name = name == "arm"
        grid.add_column(Text(name), "", justify="left" if is_name else "right", no_wrap=not is_name)
    for row in scores.to_numpy().tolist():
        grid.add_row(*map(Text, row))
    console.print(Text(str(findings.record["study"]["study"]), style="bold"))
    console.print(heading(findings), "", grid, "", sep="\n")
    styles = {Verdict.BETTER: "green", Verdict.WORSE: "red"}
    for sentence, comparison in zip(sentences(findings), findings.comparisons, strict=True):
        console.print(Text(sentence, styles.get(comparison["verdict"], "")))
    for lines in (remarks(findings), explanation(findings)):
        console.print("", *lines, sep="\n")
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def report_page(findings: Findings, figures: Sequence[Mapping[str, Any]]) -> str:
    """Returns `report.html`: a whole study on one page, which needs no network and no other file."""
    arms, results = findings.record["arms"], findings.results
    scores, comparisons = arms_table(findings), comparisons_table(findings)
    tables = {
        "scores": _rows(scores[["arm", "cells", findings.metric, "95 % interval", LOSS]]),
        "costs": _rows(scores[["arm", *scores.columns[5:10]]]),
        "updates": _rows(scores[["arm", *scores.columns[10:]]]) if _updates(findings) else None,
    }
    if len(comparisons):
        tables["comparisons"] = _rows(comparisons.iloc[:, :6])
        tables["errors"] = _rows(comparisons[["arm", *comparisons.columns[6:]]])
    settings = DataFrame([{"arm": arm["arm"], **_settings(arm["task"])} for arm in arms]).fillna(NOTHING)
    differing = [name for name in settings.columns[1:] if settings[name].nunique() > 1]
    more = [name for name in results.metrics if name != findings.metric]
    others = {name: [_spread(arm["others"].get(name), 4) for arm in arms] for name in more}
    names = list(dict.fromkeys([*results.metrics, "loss"]))
    cells = results.table().reindex(columns=["arm", "seed", *names, "failure"])
    cells[names] = cells[names].map(lambda score: NOTHING if math.isnan(score) else f"{score:.4f}")
    return render_page(
        "plugformer_ablation",
        "report.html",
        title=str(results.study["study"]),
        heading=heading(findings),
        sentences=sentences(findings),
        figures=figures,
        remarks=remarks(findings),
        explanation=explanation(findings),
        differing=_rows(settings[["arm", *differing]]) if differing else None,
        tasks={arm["arm"]: yaml.safe_dump(arm["task"], sort_keys=False, allow_unicode=True) for arm in arms},
        study=yaml.safe_dump(results.study, sort_keys=False, allow_unicode=True),
        others=_rows(DataFrame({"arm": scores["arm"], **others})) if others else None,
        cells=_rows(cells.fillna("").astype(str).rename(columns={"loss": LOSS})),
        ingredients=list(_settings(results.made_of).items()),
        **tables,
    )


def html_tables(findings: Findings) -> str:
    """Returns sentences, scores and verdicts as HTML, for a notebook."""
    lines = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences(findings))
    scores, comparisons = arms_table(findings).iloc[:, :6], comparisons_table(findings).iloc[:, :6]
    tables = [frame.to_html(index=False, border=0) for frame in (scores, comparisons) if len(frame)]
    return f"<p>{escape(heading(findings))}</p><ul>{lines}</ul>{''.join(tables)}"


def arms_table(findings: Findings) -> DataFrame:
    """Returns scores and costs as text: a row for each arm."""
    seeds, places = len(findings.results.study["seeds"]), _places(findings)

    def row(arm: Record) -> dict[str, str]:
        cost = arm["cost"]
        update = cost.get("update")
        return {
            "arm": arm["arm"],
            "cells": f"{arm['cells']} of {seeds}",
            findings.metric: _spread(arm["score"], places),
            "95 % interval": _interval(arm["score"], places),
            LOSS: _spread(arm["loss"], 4),
            "parameters": _number(cost.get("parameters"), ","),
            "products, MFLOPs/token": _millions(cost.get("flops")),
            "other elements, M/token": _millions(cost.get("elements")),
            "peak memory in MB": _number(cost.get("peak_memory_mb"), ",.0f"),
            "training in seconds": _number(cost.get("seconds"), ",.0f"),
            UPDATE: "{ratio:.2f} [{low:.2f}, {high:.2f}]".format(**update) if update else NOTHING,
            "single rounds": "{least:.2f} to {most:.2f}".format(**update) if update else NOTHING,
            "processor time": "{processor_ratio:.2f}".format(**update) if update else NOTHING,
            "verdict": update["verdict"] if update and arm["baseline"] else NOTHING,
        }

    return DataFrame(map(row, findings.record["arms"]))


def comparisons_table(findings: Findings) -> DataFrame:
    """Returns verdicts, tests and standard errors as text: a row for each comparison."""
    form = f".{_places(findings)}f"

    def row(comparison: Record) -> dict[str, str]:
        p, loss = comparison["p"]["corrected"], comparison["loss_difference"]
        errors = comparison["standard_error"].items()
        return {
            "arm": comparison["arm"],
            "difference": _number(comparison["difference"], form),
            f"{_percent(comparison['level'])} interval": _interval(comparison, _places(findings)),
            "p": "<0.001" if p is not None and p < 0.001 else _number(p, ".3f"),
            "verdict": comparison["verdict"],
            "minimum detectable difference": _number(comparison["minimum_detectable_difference"], form),
            **{f"standard error, {name}": _number(error, form) for name, error in errors},
            "effect size d_z": _number(comparison["effect_size_dz"], ".2f"),
            f"{LOSS}, 95 % interval": f"{_number(loss['mean'], '.4f')} {_interval(loss, 4)}",
        }

    return DataFrame(map(row, findings.comparisons))


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def _number(value: float | None, form: str) -> str:
    return NOTHING if value is None else f"{value:{form}}"


def _millions(value: float | None) -> str:
    return NOTHING if value is None else f"{value / 1e6:#.4g}"


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


def _places(findings: Findings) -> int:
    """Returns the number of decimals of scores; two are enough for what is in percent or larger."""
    scores = [arm["score"] for arm in findings.record["arms"]]
    return 2 if any(score and abs(score["mean"]) > 10 for score in scores) else 4


def _rows(frame: DataFrame) -> Rows:
    return list(map(str, frame.columns)), frame.to_numpy().tolist()


def _settings(record: Record) -> dict[str, str]:
    """Returns nested settings by dotted keys, as text."""
    settings: Iterable[tuple[str, Any]] = flat(record).items()
    return {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for key, value in settings
    }
