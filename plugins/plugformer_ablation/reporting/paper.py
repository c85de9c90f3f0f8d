"""What a paper takes from a study: a table in LaTeX and in Markdown, and a paragraph of methods."""

import re

from pandas import DataFrame

from plugformer_ablation.design.arms import context_of, plain_name
from plugformer_ablation.judging.findings import Findings
from plugformer_ablation.judging.statistics import RESAMPLES
from plugformer_ablation.reporting.sentences import heading, how_judged, price, trained_seeds

_ESCAPED = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX = str.maketrans({**_ESCAPED, "<": "$<$", ">": "$>$", **{mark: f"\\{mark}" for mark in "&%$#_{}"}})
_NUMBERS = re.compile(r"(?=.*\d)(?:[-\d.,±<\[\] ]|\de\+\d)+")


def paper_files(findings: Findings, table: DataFrame) -> dict[str, str]:
    """Returns the files for a paper, by name; `table` has a row for each arm, as text."""
    text = table.map(lambda cell: _math(cell) if _NUMBERS.fullmatch(cell) else cell.translate(_LATEX))
    latex = text.rename(columns=lambda name: name.translate(_LATEX)).to_latex(
        index=False,
        escape=False,
        caption=f"{findings.record['study']['study']}: {heading(findings)}.".translate(_LATEX),
        column_format="l" + "r" * (len(table.columns) - 1),
    )
    return {"table.tex": latex, "table.md": _markdown(table), "methods.txt": methods(findings) + "\n"}


def _math(numbers: str) -> str:
    scientific = re.sub(r"e\+(\d+)", r" \\cdot 10^{\1}", numbers)
    return "${}$".format(scientific.replace("±", r"\pm"))


def _markdown(table: DataFrame) -> str:
    rows = [list(table.columns), ["---"] * len(table.columns), *table.to_numpy().tolist()]
    lines = (" | ".join(re.sub(r"([\\|`*_<])", r"\\\1", cell) for cell in row) for row in rows)
    return "".join(f"| {line} |\n" for line in lines)


def methods(findings: Findings) -> str:
    """Returns a paragraph on how the study was made and judged, with sources."""
    study, arms, cells = findings.results.study, findings.record["arms"], findings.results.cells
    names = {plain_name(arm["arm"], arm["values"]) for arm in arms}
    contexts = {context_of(arm["values"]) for arm in arms}
    where = f" in each of {len(contexts)} combinations of task and scale" if len(contexts) > 1 else ""
    seeds = ", ".join(map(str, trained_seeds(findings)))
    counts = sorted({arm["cells"] + len(arm["failed"]) for arm in arms})
    some = f" {counts[0]} to {counts[-1]} of" if len(counts) > 1 else ""
    lines = [f"{len(names)} arms were trained{where} with{some} the seeds {seeds}."]
    metrics = {arm["arm"]: arm["metric"] for arm in arms}
    examples = sorted({len(cell.statistics.get(metrics[cell.arm], ())) for cell in cells} - {0})
    known = ", ".join(map(str, examples)) or "unknown"
    lines.append(f"They are judged by {heading(findings)}; examples: {known}.")
    if (match := study.get("match", "none")) != "none":
        lines.append(f"Arms were matched to the baseline by {match}.")
    tuned = [choice["tuned"] for arm in arms for choice in (*arm["choices"], arm)]
    if paths := dict.fromkeys(path for settings in tuned for path in settings):
        counts = [arm["spent"]["trials"] for arm in arms]
        number = " to ".join(dict.fromkeys(f"{end(counts)}" for end in (min, max)))
        trials = f"{number} trials" if any(counts) else "trials"
        how = f"in {trials} with seeds of their own"
        if any(arm["choices"] for arm in arms):
            how = f"for each seed by trainings with it, {number} of an arm besides those that count"
        lines.append(f"Each arm chose {', '.join(paths)} on validation, {how}.")
    else:
        lines.append("No setting was tuned.")
    if findings.comparisons and len(study["seeds"]) > 1:
        lines += [
            *how_judged(findings),
            "The correction is Bonferroni's. The standard errors are those of Obuchowski and Rockette "
            f"(1995), with paired differences over seeds and {RESAMPLES:,} bootstrapped test sets; the "
            "squared margins of both, from Student's t, add up (Zou and Donner, 2008).",
        ]
    diverged = sum(bool(cell.diverged) for cell in cells)
    spent, versions = findings.record["spent"], findings.results.made_of["versions"].items()
    lines.append(f"{diverged} of {len(cells)} trainings diverged. Computation: {price(spent)}.")
    lines.append(f"Software: {', '.join(f'{name} {version}' for name, version in versions)}.")
    return " ".join(lines)
