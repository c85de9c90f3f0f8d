"""How much trainings of a baseline differ by luck, measured once, and what a study can find beforehand."""

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from math import sqrt
from pathlib import Path

from rich.console import Console

from plugformer.errors import RunError
from plugformer.registry import Registry
from plugformer.runs import read_json
from plugformer_ablation.design.arms import Arm, resolve_arms
from plugformer_ablation.design.matching import matched
from plugformer_ablation.design.study import Study
from plugformer_ablation.judging.findings import Findings, find
from plugformer_ablation.judging.looks import Look, planned_looks
from plugformer_ablation.judging.over_tasks import planned_over_tasks
from plugformer_ablation.judging.results import Record, read_looks, write
from plugformer_ablation.judging.statistics import StudentT
from plugformer_ablation.judging.unplanned import family_of, pair_hashes, tested_hashes
from plugformer_ablation.running.executors import Executor
from plugformer_ablation.running.running import run_study

NOISE = "noise.json"

PAIRS = 5
"""So many pairs of trainings at least, which tell a deviation to within a factor of 0.6 to 2.5."""

USUAL = (3, 5, 8, 12)
"""Numbers of seeds of which is told what they find, besides that of the study."""


def measure_noise(
    study: Study, out: Path, registry: Registry, executor: Executor, console: Console
) -> list[Record]:
    """Trains every baseline twice with each seed, keeps how far the two differ, and returns `planned_noise`.

    One of the two is the study's own training of the baseline, which says nothing about other arms; the other
    is a replicate, with the same order of examples. `noise.json` has for each baseline the number of `pairs`,
    the `deviation` of their differences around 0, with its 95 % interval from `low` to `high`, the `error` of
    the difference of a pair over the number of test `examples`, and its `mean` score.

    Raises:
        RunError: Less than two pairs of trainings have a score.
    """
    seeds = [*dict.fromkeys([*study.seed_list, *range(1, PAIRS + 1)])][: max(study.looks[0], PAIRS)]
    copies = study.model_copy(update={"seeds": seeds, "screen": None})
    found = find(run_study(copies, out, registry, executor, console, pairs=_with_replicates))
    arms = matched(resolve_arms(study, registry), study, lambda _: None)
    tasks = {name: record["task"] for name, record in _records(arms).items()}
    noise = [{**_noise(found, each), "task": tasks[each["baseline"]]} for each in found.comparisons]
    write(out / NOISE, json.dumps(noise, ensure_ascii=False, indent=2))
    return planned_noise(study, out, arms)


def planned_noise(study: Study, out: Path, arms: Sequence[Arm]) -> list[Record]:
    """Returns the noise that is kept in a study's folder, and what the study can find with it.

    `detectable` has for numbers of `seeds` the `alpha` of a comparison and the smallest true `difference`
    that is found with a power of 80 %, with the interval that follows from that of the noise; `smallest` is
    the smallest effect that matters. Where earlier reports of the folder have spent a part of what may err,
    alpha is what is left. An arm is assumed to vary against its baseline as a replicate does, and to disagree
    with it about test examples, for all seeds, as two trainings of the baseline do. Noise of baselines that
    are other ones now is left out; `arms` are those of the study.
    """
    if not (out / NOISE).is_file():
        return []
    records, declared = _records(arms), study.smallest_effect
    planned = {**study.model_dump(mode="json", by_alias=True), "seeds": study.seed_list, "looks": study.looks}
    known = list(records.values())
    overall = planned_over_tasks(planned, known)
    pairs, tested = pair_hashes(planned, known, overall), tested_hashes(known, overall)
    family = family_of(pairs, read_looks(out), planned, tested)
    looks = planned_looks(tuple(study.looks), family.least / family.number)
    if len(looks) == 1:
        looks = [looks[0]._replace(seeds=seeds) for seeds in sorted({*USUAL, looks[0].seeds} - {1})]
    told = []
    for noise in read_json(out / NOISE):
        if noise["task"] == records.get(noise["baseline"], {}).get("task"):
            share = float(declared.rstrip(" %")) / 100 if isinstance(declared, str) else None
            smallest = declared if share is None else share * abs(noise["mean"])
            detectable = [_detectable(noise, look) for look in looks]
            told.append({**noise, "detectable": detectable, "smallest": smallest})
    return told


def noise_text(records: Sequence[Record]) -> str:
    """Returns noise for a terminal: a line for each baseline, then one for each number of seeds."""
    lines = []
    for noise in records:
        lines.append(
            "noise of {baseline}: two trainings with the same seed differ by {deviation:.3g} in {metric} "
            "(the deviation in {pairs} pairs; 95 % interval {low:.3g} to {high:.3g})".format(**noise)
        )
        if not noise["deviation"]:
            lines.append("  nothing varied: at its floor or ceiling a metric tells no arms apart")
        for found in noise["detectable"] if noise["deviation"] else ():
            line = "  {seeds} seeds find a difference of {difference:.3g} ({low:.3g} to {high:.3g})"
            if smallest := noise["smallest"]:
                more = "more" if found["difference"] > smallest else "no more"
                line += f", {more} than the {smallest:.3g} that matters"
            lines.append(line.format(**found))
    lines.append("with a power of 80 %, at the corrected level; the interval is that of the noise")
    return "\n".join(lines)


def _with_replicates(arms: Sequence[Arm]) -> list[Arm]:
    """Returns every arm with a replicate, which starts from the replicate of an earlier task's arm."""
    pairs = []
    for _, settings in groupby(arms, key=lambda arm: arm.name):
        originals = list(settings)
        pairs += [*originals, *map(_replicate, originals)]
    return pairs


def _replicate(arm: Arm) -> Arm:
    training = arm.resolved.task.training
    again = training.model_copy(update={"replicate": training.replicate + 1})
    task = arm.resolved.task.model_copy(update={"training": again})
    start = arm.start and f"{arm.start}, again"
    return replace(arm.with_task(task), name=f"{arm.name}, again", baseline=arm.name, start=start)


def _records(arms: Sequence[Arm]) -> dict[str, Record]:
    """Returns the records of arms by name, each with the first of the settings that tuning tries."""
    return {arm.name: arm.record() for arm in reversed(arms)}


def _noise(found: Findings, comparison: Record) -> Record:
    """Returns the noise of a baseline, which was compared with its replicate.

    The true mean of the differences is 0, so that as many degrees of freedom are left as there are pairs.
    """
    from scipy.special import chdtri

    name, pairs, error = comparison["baseline"], comparison["pairs"], comparison["standard_error"]
    score = next(arm["score"] for arm in found.record["arms"] if arm["arm"] == name)
    if pairs < 2 or score is None:
        raise RunError(f"the noise of {name!r} cannot be measured: {'; '.join(comparison['notes'])}")
    deviation = sqrt(comparison["difference"] ** 2 + (pairs - 1) * (error["seeds"] or 0.0) ** 2)
    cells = found.results.cells_of(name)
    return {
        "baseline": name,
        "metric": comparison["metric"],
        "mean": score["mean"],
        "pairs": pairs,
        "deviation": deviation,
        "low": deviation * sqrt(pairs / chdtri(pairs, 0.025)),
        "high": deviation * sqrt(pairs / chdtri(pairs, 0.975)),
        "examples": len(cells[0].statistics.get(comparison["metric"], ())),
        "error": (error["examples"] or 0.0) * sqrt(pairs),
    }


def _detectable(noise: Record, look: Look) -> Record:
    """Returns what a look finds of a baseline's arms, at its own level."""
    examples, found = StudentT(0.0, noise["error"], noise["examples"] - 1.0), {}
    for name, deviation in (("difference", "deviation"), ("low", "low"), ("high", "high")):
        error = noise[deviation] / sqrt(look.seeds)
        test = StudentT(0.0, error, look.seeds - 1.0, examples)
        found[name] = test.detectable_difference(look.alpha)
    return {"seeds": look.seeds, "alpha": look.alpha, **found}
