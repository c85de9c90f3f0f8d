"""How numbers and verdicts are spelled in every form of the report."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pandas import DataFrame, isna

from plugformer_ablation.arms import label
from plugformer_ablation.findings import LOSS, Findings
from plugformer_ablation.results import Record
from plugformer_ablation.statistics import POWER

NOTHING = "-"
"""Stands where there is nothing to tell."""

MDD, MINIMUM_DETECTABLE_DIFFERENCE = "MDD", "minimum detectable difference"
"""In the head of a narrow column, and in full."""

_COARSE = 10.0  # scores above this are in percent or larger: two decimals are enough


def readable(findings: Findings) -> DataFrame:
    """Returns the table of findings as text: a row for each arm, from which the forms of a report choose.

    The columns have short names; `headings` says what readers see.
    """
    table = findings.table
    score, loss = (decimals(table.get(f"{name}.mean", ())) for name in ("score", "loss"))
    seeds = len(findings.results.study["seeds"])
    return DataFrame([_spelled(row, seeds, score, loss) for row in table.to_dict("records")])


def headings(findings: Findings) -> dict[str, str]:
    """Returns the headings of those columns of `readable` that are called otherwise."""
    errors = {f"error.{each}": f"standard error, {each}" for each in ("seeds", "examples", "both")}
    return {
        "score": findings.metric,
        "score.interval": "95 % interval",
        "loss": LOSS,
        "flops": "MFLOPs/token, forward",
        "memory": "peak memory in MB",
        "speed": "tokens/s",
        "interval": f"{level_text(findings)} interval",
        "mdd": MINIMUM_DETECTABLE_DIFFERENCE,
        **errors,
        "effect": "effect size d_z",
        "loss.difference": f"{LOSS}, 95 % interval",
    }


def _spelled(row: Mapping[str, Any], seeds: int, score: int, loss: int) -> dict[str, str]:
    """Returns a row of findings as text; `score` and `loss` are their numbers of decimals."""

    def number(key: str, form: str) -> str:
        return NOTHING if isna(row.get(key)) else f"{row[key]:{form}}"

    def interval(prefix: str, places: int) -> str:
        if isna(row.get(f"{prefix}low")):
            return NOTHING
        return f"[{row[f'{prefix}low']:.{places}f}, {row[f'{prefix}high']:.{places}f}]"

    flops, p = (row.get(key, math.nan) for key in ("cost.flops_per_token", "p.corrected"))
    return {
        "arm": row["arm"],
        "cells": f"{row['cells']} of {seeds}",
        "score": spread_text(row.get("score.mean"), row.get("score.deviation"), score),
        "score.interval": interval("score.", score),
        "loss": spread_text(row.get("loss.mean"), row.get("loss.deviation"), loss),
        "parameters": number("cost.parameters", ","),
        "flops": NOTHING if isna(flops) else f"{flops / 1e6:#.4g}",
        "memory": number("cost.peak_memory_mb", ",.0f"),
        "speed": number("cost.tokens_per_second", ",.0f"),
        "seconds": number("cost.seconds", ",.0f"),
        "comparison": "" if isna(row.get("baseline")) else f"{row['arm']} - {row['baseline']}",
        "verdict": "" if isna(row.get("verdict")) else row["verdict"],
        "difference": number("difference", f".{score}f"),
        "interval": interval("", score),
        "p": "<0.001" if not isna(p) and p < 0.001 else number("p.corrected", ".3f"),
        "mdd": number("minimum_detectable_difference", f".{score}f"),
        **{
            f"error.{each}": number(f"standard_error.{each}", f".{score}f")
            for each in ("seeds", "examples", "both")
        },
        "effect": number("effect_size_dz", ".2f"),
        "loss.difference": NOTHING
        if isna(row.get("loss_difference.mean"))
        else f"{number('loss_difference.mean', f'.{loss}f')} {interval('loss_difference.', loss)}",
    }


def decimals(means: Iterable[Any]) -> int:
    """Returns the number of decimals that one column of scores needs."""
    return 2 if any(not isna(each) and abs(each) > _COARSE for each in means) else 4


def spread_text(mean: Any, deviation: Any, places: int) -> str:
    """Returns mean and deviation."""
    if isna(mean):
        return "failed"
    return f"{mean:.{places}f}" if isna(deviation) else f"{mean:.{places}f} ± {deviation:.{places}f}"


def level_text(findings: Findings) -> str:
    """Returns the level of the corrected intervals in percent, as 98.75 %; nothing without comparisons."""
    return f"{100 * findings.comparisons[0]['level']:.4g} %" if findings.comparisons else ""


def heading(findings: Findings) -> str:
    """Returns on one line what is compared, where, and how often."""
    direction = "higher" if findings.record["higher_is_better"] else "lower"
    seeds, split = (findings.results.study[key] for key in ("seeds", "split"))
    count = f"{len(seeds)} seeds" if len(seeds) > 1 else "one seed"
    return f"{findings.metric} on {split}, {direction} is better; {count}"


def explanation(findings: Findings) -> list[str]:
    """Returns an explanation of the tables."""
    seeds = findings.results.study["seeds"]
    told = ["± is the standard deviation over seeds."] if len(seeds) > 1 else []
    if not findings.comparisons:
        return told
    number, corrected, together = len(findings.comparisons), "", ""
    if number > 1:
        corrected = f" (it is multiplied by {number} for as many comparisons)"
        together = f": all {number} hold together with 95 %"
    return [
        *told,
        "Differences are the arm's mean minus the baseline's, over pairs of the same seed.",
        f"The {level_text(findings)} interval covers what seeds and test examples leave open{together}. An "
        f"arm is better or worse where it excludes 0, which is where p is below 0.05{corrected}.",
        f"{MDD}: {MINIMUM_DETECTABLE_DIFFERENCE}, the smallest true difference that this study finds with a "
        f"power of {100 * POWER:.0f} % at its corrected level; smaller ones may exist.",
    ]


def remarks(findings: Findings) -> list[str]:
    """Returns the choices of tuning and remarks on single arms: mismatches, failures, missing tests."""
    arms = findings.record["arms"]
    tried = findings.results.study.get("tune", {})
    told = [line for path, values in tried.items() for line in _chosen(arms, path, values)]
    beside = {each["arm"]: each["notes"] for each in findings.comparisons}
    for arm in arms:
        failed = sorted((int(seed), why) for seed, why in arm["failed"].items())
        notes = ["; ".join(arm["remarks"])] if arm["remarks"] else []
        notes += [f"seed {seed} failed: {why}" for seed, why in failed]
        told += [f"{arm['arm']}: {note}" for note in (*notes, *beside.get(arm["arm"], ()))]
    return told


def _chosen(arms: Sequence[Record], path: str, tried: Sequence[Any]) -> Iterator[str]:
    """Yields a sentence on the value that tuning chose for each arm, and on choices at the grid's edge."""
    chosen = {arm["arm"]: arm["tuned"][path] for arm in arms if arm["cells"]}
    if not chosen:  # every trial failed
        return
    takers: dict[str, list[str]] = {}
    for arm, value in chosen.items():
        takers.setdefault(label(value), []).append(arm)
    whose = [
        f"{value} for {'every arm' if len(names) == len(arms) else ', '.join(names)}"
        for value, names in takers.items()
    ]
    ends = {}
    if len(tried) > 1 and all(type(value) in (int, float) for value in tried):
        ends = {"smallest": min(tried), "largest": max(tried)}
    reached = [name for name, end in ends.items() if end in chosen.values()]
    beyond = f": the {' and the '.join(reached)} of those tried, better ones may lie beyond"
    yield f"tuning chose {path} {'; '.join(whose)}{beyond if reached else ''}"
