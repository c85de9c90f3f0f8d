"""What a paper takes from a study: a table in LaTeX and in Markdown, and a paragraph of methods."""

import re
from collections.abc import Iterator, Sequence

from pandas import DataFrame

from plugformer_ablation.arms import context_of, plain_name
from plugformer_ablation.comparison import ALPHA
from plugformer_ablation.findings import Findings
from plugformer_ablation.sentences import heading, judged_by, percent
from plugformer_ablation.spending import price
from plugformer_ablation.statistics import RESAMPLES

_LATEX = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
    }
)
_NUMBERS = re.compile(r"[-\d.,±<\[\] ]*\d[-\d.,±<\[\] ]*")


def paper_files(findings: Findings, table: DataFrame) -> dict[str, str]:
    """Returns the files for a paper, by name; `table` has a row for each arm, as text."""
    return {
        "table.tex": _latex(
            table,
            f"{findings.record['study']['study']}: {heading(findings)}. Means with standard deviations over "
            "seeds; all intervals hold together with 95 %.",
        ),
        "table.md": _markdown(table),
        "methods.txt": methods(findings) + "\n",
    }


def _latex(table: DataFrame, caption: str) -> str:
    """Returns a table in the style of the package booktabs."""
    names = [name.translate(_LATEX) for name in table.columns]
    rows = table.map(lambda text: _math(text) if _NUMBERS.fullmatch(text) else text.translate(_LATEX))
    text: str = rows.set_axis(names, axis=1).to_latex(
        index=False,
        escape=False,
        caption=caption.translate(_LATEX),
        column_format="l" + "r" * (len(names) - 1),
    )
    return text


def _math(text: str) -> str:
    return "${}$".format(text.replace("±", r"\pm"))


def _markdown(table: DataFrame) -> str:
    rows = [list(table.columns), ["---", *["---:"] * (len(table.columns) - 1)], *table.to_numpy().tolist()]
    lines = (" | ".join(re.sub(r"([\\|`*_<])", r"\\\1", cell) for cell in row) for row in rows)
    return "".join(f"| {line} |\n" for line in lines)


def methods(findings: Findings) -> str:
    """Returns a paragraph on how the study was made and judged."""
    return " ".join([*_design(findings), *_tuning(findings), *_test(findings), *_made_of(findings)])


def _design(findings: Findings) -> Iterator[str]:
    study, arms = findings.results.study, findings.record["arms"]
    seeds, contexts = study["seeds"], {context_of(arm["values"]) for arm in arms}
    names = {plain_name(arm["arm"], arm["values"]) for arm in arms}
    count = "one seed" if len(seeds) == 1 else f"{len(seeds)} seeds each ({', '.join(map(str, seeds))})"
    where = f" in each of {len(contexts)} combinations of task and scale" if len(contexts) > 1 else ""
    yield f"{len(names)} arms were trained{where} with {count}; trainings with the same seed are paired."
    metrics = {arm["arm"]: arm["metric"] for arm in arms}
    examples = {len(cell.statistics.get(metrics[cell.arm], ())) for cell in findings.results.cells} - {0}
    tested = f" ({max(examples):,} examples)" if len(examples) == 1 else ""
    yield f"Arms are judged by {'; '.join(dict.fromkeys(judged_by(findings, arm) for arm in arms))}{tested}."
    if (match := study.get("match", "none")) != "none":
        yield f"They were matched to the baseline by {match}."


def _tuning(findings: Findings) -> Iterator[str]:
    record = findings.record
    paths = dict.fromkeys(path for arm in record["arms"] for path in arm["tuned"])
    if paths:
        counts = [arm["spent"]["trials"] for arm in record["arms"]]
        trials = f", in {_range(counts, '{}')} trials" if any(counts) else ""
        yield (
            f"Each arm chose {', '.join(paths)} by the same metric on validation{trials} with seeds that no "
            "comparison uses."
        )
    elif record["comparisons"]:
        yield "No setting was tuned."
    diverged = sum(bool(cell.diverged) for cell in findings.results.cells)
    if diverged:
        yield (
            f"{diverged} of {len(findings.results.cells)} trainings diverged and count with the score of "
            "the untrained model."
        )


def _range(numbers: Sequence[float], form: str) -> str:
    """Returns the smallest and the largest number, or the only one."""
    return " to ".join(dict.fromkeys(form.format(end) for end in (min(numbers), max(numbers))))


def _test(findings: Findings) -> Iterator[str]:
    """Yields how differences are judged; nothing of one seed, which gives no verdict."""
    study, comparisons = findings.results.study, [*findings.comparisons, *findings.overall]
    if not comparisons or len(study["seeds"]) == 1:
        return
    level = _range([100 * comparison["level"] for comparison in comparisons], "{:.4g} %")
    correction = (
        f"With Bonferroni's correction for {len(comparisons)} comparisons its"
        if len(comparisons) > 1
        else "Its"
    )
    yield (
        "The interval of each difference of means covers the variation over seeds (paired t) and over test "
        f"examples (the covariance that seeds share, from {RESAMPLES:,} bootstrapped test sets; Obuchowski "
        "and Rockette, 1995); its squared margin is the sum of the squared margins of both (Zou and Donner, "
        f"2008). {correction} level is {level}; an arm is better or worse where it excludes 0 (family-wise "
        f"error rate {percent(ALPHA)})."
    )
    if study["smallest_effect"]:
        yield (
            f"The smallest effect that matters was declared as {study['smallest_effect']}: arms are "
            "equivalent where two one-sided tests exclude it (Schuirmann, 1987)."
        )
    if len(study["looks"]) > 1:
        yield (
            f"Looks after {', '.join(map(str, study['looks']))} seeds were planned; the error rate was spent "
            "as in a design of O'Brien and Fleming (Lan and DeMets, 1983)."
        )
    if len(findings.looks) > 1:
        yield (
            f"This is look {len(findings.looks)} at the study, which was not planned; each has half of the "
            "error rate of the one before."
        )


def _made_of(findings: Findings) -> Iterator[str]:
    made = findings.results.made_of
    yield f"Computation: {price(findings.record['spent'])}."
    versions = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
    code = f"; code {made['code'][:12]}" if "code" in made else ""
    yield f"Software: {versions}{code}."
