"""How numbers and verdicts are spelled in every form of the report."""

from collections.abc import Iterable, Sequence
from typing import Any

from plugformer_ablation.findings import Findings
from plugformer_ablation.labels import label
from plugformer_ablation.statistics.student import POWER
from plugformer_ablation.statistics.summary import Summary

NOTHING = "-"
"""Stands where there is nothing to tell."""

MDD, MINIMUM_DETECTABLE_DIFFERENCE = "MDD", "minimum detectable difference"
"""In the head of a narrow column, and in full."""

_COARSE = 10.0  # scores above this are in percent or larger: two decimals are enough


def decimals(summaries: Iterable[Summary | None]) -> int:
    """Returns how many decimals one column of scores needs."""
    return 2 if any(each is not None and abs(each.mean) > _COARSE for each in summaries) else 4


def score_decimals(findings: Findings) -> int:
    """Returns how many decimals the primary metric needs."""
    return decimals(arm.score for arm in findings.arms)


def loss_decimals(findings: Findings) -> int:
    """Returns how many decimals the validation loss needs."""
    return decimals(arm.loss for arm in findings.arms)


def summary_text(summary: Summary | None, places: int) -> str:
    """Returns mean and deviation."""
    if summary is None:
        return "failed"
    if summary.deviation is None:
        return f"{summary.mean:.{places}f}"
    return f"{summary.mean:.{places}f} ± {summary.deviation:.{places}f}"


def number_text(value: float | None, places: int) -> str:
    """Returns a number, or what stands for none."""
    return NOTHING if value is None else f"{value:.{places}f}"


def interval_text(interval: tuple[float, float] | None, places: int) -> str:
    """Returns the ends of an interval."""
    return NOTHING if interval is None else f"[{interval[0]:.{places}f}, {interval[1]:.{places}f}]"


def p_text(p: float | None) -> str:
    """Returns a p to three decimals."""
    if p is None:
        return NOTHING
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def level_text(level: float) -> str:
    """Returns a level in percent, as 98.75 %."""
    return f"{100 * level:.4g} %"


def heading(findings: Findings) -> str:
    """Returns on one line what is compared, where, and how often."""
    direction = "higher" if findings.higher_is_better else "lower"
    seeds = findings.seeds
    count = f"{len(seeds)} seeds" if len(seeds) > 1 else "one seed"
    return f"{findings.metric} on {findings.split}, {direction} is better; {count}"


def explanation(findings: Findings) -> list[str]:
    """Returns how the tables are to be read."""
    told = ["± is the standard deviation over seeds."] if len(findings.seeds) > 1 else []
    if not findings.comparisons:
        return told
    number, level = len(findings.comparisons), level_text(findings.comparisons[0].judgement.level)
    corrected, together = "", ""
    if number > 1:
        corrected = f" (it is multiplied by {number} for as many comparisons)"
        together = f": all {number} hold together with 95 %"
    return [
        *told,
        "Differences are the arm's mean minus the baseline's, over pairs of the same seed.",
        f"The {level} interval covers what seeds and test examples leave open{together}. An arm is better or "
        f"worse where it excludes 0, which is where p is below 0.05{corrected}.",
        f"{MDD}: {MINIMUM_DETECTABLE_DIFFERENCE}, the smallest true difference that this study finds with a "
        f"power of {100 * POWER:.0f} % at its corrected level; smaller ones may exist.",
    ]


def remarks(findings: Findings) -> list[str]:
    """Returns what tuning chose, and what to know of single arms: mismatches, failures, missing tests."""
    tried = findings.results.study.get("tune", {})
    told = [_chosen(findings, path, values) for path, values in tried.items()]
    for arm in findings.arms:
        if arm.arm.notes:
            told.append(f"{arm.arm.name}: {'; '.join(arm.arm.notes)}")
        told += [f"{arm.arm.name}: seed {seed} failed: {why}" for seed, why in sorted(arm.failures.items())]
        comparison = findings.comparison_of(arm.arm.name)
        if comparison is not None:
            told += [f"{arm.arm.name}: {note}" for note in comparison.judgement.contrast.notes]
    return told


def _chosen(findings: Findings, path: str, tried: Sequence[Any]) -> str:
    """Returns which of the values that were tried the arms took, and whether better ones may lie beyond."""
    chosen = {arm.arm.name: arm.arm.tuned[path] for arm in findings.arms if arm.cells}
    arms: dict[str, list[str]] = {}
    for arm, value in chosen.items():
        arms.setdefault(label(value), []).append(arm)
    whose = [
        f"{value} for {', '.join(names) if len(arms) > 1 else 'every arm'}" for value, names in arms.items()
    ]
    told = f"tuning chose {path} {'; '.join(whose)}"
    if len(tried) < 2 or not all(type(value) in (int, float) for value in tried):
        return told
    ends = {"smallest": min(tried), "largest": max(tried)}
    reached = [name for name, end in ends.items() if end in chosen.values()]
    return (
        f"{told}: the {' and the '.join(reached)} of those tried, better ones may lie beyond"
        if reached
        else told
    )
