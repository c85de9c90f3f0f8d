"""Screening: many arms are trained with few seeds, and those that seem to differ are then confirmed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf, isfinite, log, sqrt
from pathlib import Path

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from plugformer_ablation.design.arms import Arm, by_context, by_stage, plain_name
from plugformer_ablation.design.blocks import SCREENING_SEED, Screening
from plugformer_ablation.judging.comparison import Scores, compare
from plugformer_ablation.judging.findings import scores_of
from plugformer_ablation.judging.results import Record, StudyResults
from plugformer_ablation.judging.statistics import StudentT
from plugformer_ablation.running.cells import make_cells
from plugformer_ablation.running.tuning import Train


def screened(
    arms: Sequence[Arm], screening: Screening, results: StudyResults, out: Path, train: Train
) -> tuple[list[Arm], list[Record]]:
    """Returns the baselines with the arms that seem to differ from them, and a record of each arm.

    All are trained with seeds of their own and measured on validation, so that neither the seeds nor the test
    examples of the verdict have chosen. An arm of several tasks or scales goes on with all of them: its p is
    the smallest of them, times their number. One of which a training failed, or that of its baseline, is not
    screened out by that, and goes on.
    """
    seeds = range(SCREENING_SEED, SCREENING_SEED + screening.seeds)
    tried = [replace(arm, split="validation") for arm in arms if arm.failure is None]
    known = {arm.name: arm for arm in tried}
    cells = []
    for stage in by_stage(tried):
        cells += train([cell for arm in stage for cell in make_cells(arm, seeds, out, known)])
    records = tuple(arm.record() for arm in tried)
    scores = scores_of(replace(results, arms=records, cells=tuple(cells)), {a.name: a.metric for a in tried})
    found: dict[str, list[float | None]] = {plain_name(a.name, a.values): [] for a in arms if a.baseline}
    for baseline, *others in by_context(arms):
        p = moderated({arm.name: scores.get(arm.name, Scores({})) for arm in (baseline, *others)}, seeds)
        for arm in others:
            found[plain_name(arm.name, arm.values)].append(p.get(arm.name))
    values: dict[str, float | None] = {}
    for name, each in found.items():
        whole = [value for value in each if value is not None]
        values[name] = min(1.0, len(whole) * min(whole)) if len(whole) == len(each) else None
    kept = discoveries({name: p for name, p in values.items() if p is not None}, screening.rate)
    kept |= {name for name, p in values.items() if p is None}
    going_on = [arm for arm in arms if not arm.baseline or plain_name(arm.name, arm.values) in kept]
    return going_on, [{"arm": name, "p": p, "confirmed": name in kept} for name, p in values.items()]


def discoveries(p: Mapping[str, float], rate: float) -> set[str]:
    """Returns the names whose p show a difference at a false discovery rate.

    Benjamini and Hochberg (1995), section 3.1, https://doi.org/10.1111/j.2517-6161.1995.tb02031.x.
    """
    from scipy.stats import false_discovery_control

    adjusted = false_discovery_control([*p.values()]) if p else ()
    return {name for name, value in zip(p, adjusted, strict=True) if value <= rate}


def moderated(scores: Mapping[str, Scores], seeds: Sequence[int]) -> dict[str, float]:
    """Returns the p of each arm against the first one, the baseline; only of arms with all scores.

    Two or three seeds say little about how much an arm varies over seeds, but many arms together say how much
    arms do. The variance of each is drawn towards that of all: Smyth (2004), section 6.2,
    https://doi.org/10.2202/1544-6115.1027. Variances are those of an arm and a seed that the means of both do
    not explain, so that what a seed does to all arms is left out, and that of the baseline is among them:
    the differences of two seeds would share its luck.
    """
    whole = {
        name: each for name, each in scores.items() if all(isfinite(each.scores.get(s, inf)) for s in seeds)
    }
    baseline = next(iter(scores))
    if baseline not in whole or len(whole) < 2:
        return {}
    values = np.array([[each.scores[seed] for seed in seeds] for each in whole.values()])
    residuals = values - values.mean(axis=1, keepdims=True) - values.mean(axis=0) + values.mean()
    freedom = len(seeds) - 1
    variances = (residuals**2).sum(axis=1) / (freedom * (1 - 1 / len(whole)))
    own = float(variances[0])
    prior, weight = _prior(variances, freedom)
    if isfinite(weight):
        variances = (weight * prior + freedom * variances) / (weight + freedom)
    else:
        variances = np.full(len(whole), prior)
    total = min(weight + freedom, float(freedom * (len(whole) - 1)))
    found = {}
    for arm, variance in zip(list(whole)[1:], variances[1:], strict=True):
        known = compare(whole[arm], whole[baseline], seeds)
        error = sqrt((variance + max(variances[0], own)) / len(seeds))
        other = (known.both and known.both.other) or known.examples
        found[arm] = StudentT(known.difference or 0.0, error, total, other).p
    return found


def _prior(variances: Float[ndarray, " arms"], freedom: int) -> tuple[float, float]:
    """Returns the variance that arms have in common, and for how many degrees of freedom it counts."""
    from scipy.optimize import brentq
    from scipy.special import digamma, polygamma

    logs = np.log(variances[variances > 0])
    if len(logs) < 2:
        return float(variances.mean()), inf
    excess = float(logs.var(ddof=1) - polygamma(1, freedom / 2))
    mean = float(logs.mean() - digamma(freedom / 2) + log(freedom / 2))
    if excess <= polygamma(1, 1e4):
        return float(np.exp(mean)), inf
    half = float(brentq(lambda half: polygamma(1, half) - excess, 1e-3, 1e4))
    return float(np.exp(mean + digamma(half) - log(half))), 2 * half
