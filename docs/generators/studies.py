"""Tables of published studies, made from their `report.json`."""

import json
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from generators.markdown import table
from plugformer_ablation.design.arms import SCALE, TASK
from plugformer_ablation.judging.statistics import StudentT

Record = Mapping[str, Any]


def study_table(docs: Path, name: str) -> str:
    """Returns a row for each arm of a study at each task and scale: what it chose, its score and verdict."""
    report = json.loads((docs / "studies" / name / "report.json").read_text(encoding="utf-8"))
    verdicts = {each["arm"]: each for each in report["comparisons"]}
    tuned = sorted({path for arm in report["arms"] for path in arm["tuned"]})
    header = ["at", "arm", *(f"`{path.rpartition('.')[2]}`" for path in tuned), report["arms"][0]["metric"]]
    header += ["difference [interval]", "verdict", "speedup in operations [95 %]"]
    rows: list[list[str]] = []
    for arm in report["arms"]:
        place = " ".join(str(arm["values"][key]) for key in (TASK, SCALE) if key in arm["values"])
        plain = _plain(arm["arm"].removeprefix(f"{place}: "))
        chosen = [f"{arm['tuned'][path]:g}{'*' if path in arm['edges'] else ''}" for path in tuned]
        score = "{mean:.4g} ± {deviation:.2g}, {seeds}".format(**arm["score"])
        rows.append([place, f"`{plain}`", *chosen, score, *_judged(verdicts.get(arm["arm"]), report)])
    return table(header, rows)


def _plain(arm: str) -> str:
    """Returns the value of an arm's first factor without options; the name of an arm that was declared."""
    return arm.partition("=")[2].partition("(")[0] or arm


def _judged(verdict: Record | None, report: Record) -> Iterator[str]:
    """Yields the difference of an arm in percent of the baseline, the verdict and the speedup."""
    if verdict is None:
        yield from ("", "", "")
        return
    mean = next(arm["score"]["mean"] for arm in report["arms"] if arm["arm"] == verdict["baseline"])
    ends = [100 * verdict[key] / mean for key in ("difference", "low", "high") if verdict[key] is not None]
    yield ("{:+.2f} % [{:+.2f}, {:+.2f}]" if len(ends) == 3 else "{:+.2f} %").format(*ends)
    yield verdict["verdict"]
    speedup = (verdict["speedup"] or {}).get("operations")
    yield "{ratio:.2f} [{low:.2f}, {high:.2f}]".format(**speedup) if speedup else "–"


def pair_table(docs: Path, name: str) -> str:
    """Returns differences of arms that are no baseline, with t intervals over seeds.

    They are in percent of the second arm's mean, and hold together with 95 %, by Bonferroni's correction for
    all pairs of the table.
    """
    report = json.loads((docs / "studies" / name / "report.json").read_text(encoding="utf-8"))
    arms = [arm for arm in report["arms"] if arm["baseline"]]
    pairs = [(one, other) for one, other in combinations(arms, 2) if one["baseline"] == other["baseline"]]
    means = {arm["arm"]: arm["score"]["mean"] for arm in report["arms"]}
    rows = []
    for one, other in pairs:
        ours, theirs = (_scores(report, arm) for arm in (one, other))
        apart = np.array([ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())])
        ends = [apart.mean(), *StudentT.of(apart).interval(1 - 0.05 / len(pairs))]
        told = "{:+.2f} % [{:+.2f}, {:+.2f}]".format(*(100 * end / means[other["arm"]] for end in ends))
        names = [f"`{_plain(arm['arm'].partition(': ')[2])}`" for arm in (one, other)]
        lower = f"{(apart < 0).sum()} of {len(apart)}"
        rows.append([one["arm"].partition(": ")[0], " against ".join(names), told, lower])
    return table(["at", "arms", "difference [interval]", "the first one is lower with"], rows)


def trial_table(docs: Path, name: str) -> str:
    """Returns the validation loss of each trial of a study that tunes one setting."""
    report = json.loads((docs / "studies" / name / "report.json").read_text(encoding="utf-8"))
    losses: dict[str, dict[float, float]] = {}
    for trial in report["trials"]:
        (value,) = trial["tuned"].values()
        losses.setdefault(trial["arm"], {})[value] = trial["loss"]
    values = sorted({value for tried in losses.values() for value in tried})
    rows = []
    for arm, tried in losses.items():
        place, _, plain = arm.partition(": ")
        best = min(tried.values())
        shown = [f"{tried[value]:.4f}" if value in tried else "" for value in values]
        shown = [f"**{text}**" if text == f"{best:.4f}" else text for text in shown]
        rows.append([place, f"`{_plain(plain)}`", *shown])
    return table(["at", "arm", *(f"{value:g}" for value in values)], rows)


def score_table(docs: Path, name: str) -> str:
    """Returns the scores of all seeds of a study: a row for each task or scale, a column for each arm."""
    report = json.loads((docs / "studies" / name / "report.json").read_text(encoding="utf-8"))
    rows: dict[str, dict[str, str]] = {}
    for arm in report["arms"]:
        place, _, plain = arm["arm"].partition(": ")
        scores = " ".join(f"{score:.2f}" for score in sorted(_scores(report, arm).values(), reverse=True))
        rows.setdefault(place, {})[_plain(plain)] = scores
    arms = list(next(iter(rows.values())))
    return table(["at", *arms], [[place, *(found[arm] for arm in arms)] for place, found in rows.items()])


def _scores(report: Record, arm: Record) -> dict[int, float]:
    cells = [cell for cell in report["cells"] if cell["arm"] == arm["arm"]]
    return {cell["seed"]: cell["metrics"][arm["metric"]] for cell in cells}


def law_table(docs: Path, name: str) -> str:
    """Returns a row for each arm's power law, with the loss that smaller scales predict."""
    report = json.loads((docs / "studies" / name / "report.json").read_text(encoding="utf-8"))
    rows = []
    for law in report["laws"]:
        measured = law["scales"]["loss"][-1]
        numbers = [f"{law[key]:.2f}" for key in ("irreducible", "reducible", "exponent")]
        losses = [f"{law['predicted']:.4f}", f"{measured:.4f}"]
        error = f"{100 * (law['predicted'] / measured - 1):+.2f} %"
        rows.append([f"`{_plain(law['arm'])}`", *numbers, *losses, error])
    return table(["arm", "E", "A", "a", "predicted loss", "measured", "error"], rows)
