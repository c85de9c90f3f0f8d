"""Whether smaller rungs of published studies order arms as their largest one, and probes as other studies.

The tables are made of every `report.json` under `docs/`: a new study is in them without a change here.
"""

from itertools import groupby, product
from math import isnan, nan
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from generators.markdown import table
from generators.rungs import Goodness, Rung, published
from plugformer_ablation.judging.comparison import ALPHA
from plugformer_ablation.judging.statistics import StudentT

PARTS = (0.25, 0.5)
"""Shares of a training after which its validation loss is read."""

COMMON = 3
"""The least number of arms of one name by which two studies are compared."""

Differences = Float[ndarray, "pairs seeds"]
"""How much better the first arm of each pair is with each seed."""

Estimate = tuple[float, float, float]
"""A mean, and the ends of its 95 % interval."""

TINY = 1e-12
"""Numbers between 0 and 1 that differ by less are equal."""


def differences(scores: Goodness) -> Differences:
    """Returns each arm minus each later one."""
    first, second = np.triu_indices(len(scores), 1)
    with np.errstate(invalid="ignore"):  # infinite scores
        difference: ndarray = scores[first] - scores[second]
    return difference


def decided(large: Differences) -> Bool[ndarray, " pairs"]:
    """Returns the pairs whose t interval over seeds excludes 0, all of them together with 95 %."""
    finite = [pair[np.isfinite(pair)] for pair in large]
    return np.array(
        [len(values) > 1 and StudentT.of(values).p < ALPHA / len(large) for values in finite], dtype=bool
    )


def agreements(small: Differences, large: Differences, *, clear: bool = False) -> Float[ndarray, " seeds"]:
    """Returns for each seed, of how many pairs its trainings at a rung have the order of the largest one.

    That order is the one of the means of the *other* seeds there, and if only pairs count that are `clear`,
    they are those which the other seeds decide: the luck of a seed is never compared with itself. So the
    largest rung can be compared with itself, and a part of a training with the rest of it. Arms that are
    equal at the largest rung are no pair; those that are equal at the smaller one alone do not agree.
    """
    shares = []
    for seed in range(small.shape[1]):
        others = np.delete(large, seed, axis=1)
        order = np.sign(np.nansum(others, axis=1))
        known = np.isfinite(small[:, seed]) & np.isfinite(order) & (order != 0)
        if clear:
            known &= decided(others)
        if known.any():
            shares.append(float(np.mean(np.sign(small[known, seed]) == order[known])))
    return np.array(shares)


def accuracy(small: Differences, large: Differences) -> Estimate | None:
    """Returns the mean agreement over all pairs with its 95 % interval; None if there is no pair.

    Its error is that of the jackknife, which leaves out each seed at both rungs: orders at the largest one
    are uncertain, too, and the same for all seeds of the smaller one.
    """
    shares, seeds = agreements(small, large), range(small.shape[1])
    if not len(shares):
        return None
    without = [agreements(*(np.delete(rung, seed, axis=1) for rung in (small, large))) for seed in seeds]
    means = np.array([each.mean() for each in without if len(each)])
    mean, number = float(shares.mean()), len(means)
    if number < COMMON or np.ptp(means) < TINY:
        return over_seeds(shares)
    error = float(np.sqrt((number - 1) / number * np.sum((means - means.mean()) ** 2)))
    return _within(mean, *StudentT(mean, error, number - 1).interval(1 - ALPHA))


def over_seeds(shares: Float[ndarray, " seeds"]) -> Estimate | None:
    """Returns the mean of shares between 0 and 1, one of each seed, with its 95 % interval; None without any.

    It is a t interval: pairs share arms and are not independent, but seeds are. Where all seeds have the
    same share, nothing is known of how much they vary, and the interval is that of Clopper and Pearson
    (1934), https://doi.org/10.1093/biomet/26.4.404, as if each seed had one pair: no variable between 0 and 1
    with the same mean varies more.
    """
    if not len(shares):
        return None
    number, total = len(shares), float(np.sum(shares))
    if np.ptp(shares) < TINY:
        from scipy.special import betaincinv

        low = betaincinv(total, number - total + 1, ALPHA / 2) if total else 0.0
        high = betaincinv(total + 1, number - total, 1 - ALPHA / 2) if total < number else 1.0
        return _within(total / number, float(low), float(high))
    return _within(total / number, *StudentT.of(shares).interval(1 - ALPHA))


def _within(mean: float, low: float, high: float) -> Estimate:
    return mean, max(low, 0.0), min(high, 1.0)


def _printed(estimate: Estimate | None) -> str:
    return "–" if estimate is None else "{:.2f} [{:.2f}, {:.2f}]".format(*estimate)


HEADER = (
    "study",
    "smaller rung",
    "its cost",
    "pairs",
    "one training agrees",
    "ceiling",
    "decided pairs",
    "one training agrees on them",
    "all its seeds agree on them",
)


def row(small: Differences, large: Differences) -> list[str]:
    """Returns the cells of a row that say how a smaller rung decides."""
    clear = decided(large)
    orders = [np.sign(np.nansum(rung[clear], axis=1)) for rung in (small, large)]
    same = int((orders[0] == orders[1]).sum())
    return [
        str(len(clear)),
        _printed(accuracy(small, large)),
        _printed(accuracy(large, large)),
        str(int(clear.sum())),
        _printed(over_seeds(agreements(small, large, clear=True))),
        f"{same} of {clear.sum()}" if clear.any() else "–",
    ]


def scale_table(docs: Path) -> str:
    """Returns the table of rungs that are trainings of their own.

    A row has the pairs of all tasks of a study.
    """
    rows = []
    for study, group in groupby(published(docs), key=lambda rung: rung.study):
        known = {(rung.task, rung.scale): rung for rung in group}
        tasks, scales = (list(dict.fromkeys(keys)) for keys in zip(*known, strict=True))
        for scale in scales[:-1]:
            at = [(known.get((task, scale)), known.get((task, scales[-1]))) for task in tasks]
            both = [(small, large) for small, large in at if small and large]
            if not both:
                continue
            small, large = (np.concatenate(each) for each in zip(*map(_paired, both), strict=True))
            cost = sum(small.operations for small, _ in both) / sum(large.operations for _, large in both)
            told = "–" if isnan(cost) else f"{cost:.2g}"
            rows.append([study, f"{scale} for {scales[-1]}", told, *row(small, large)])
    return table(HEADER, rows) if rows else "No published study has several scales."


def _paired(rungs: tuple[Rung, Rung]) -> tuple[Differences, Differences]:
    """Returns the differences of the arms that both rungs have."""
    arms = [arm for arm in rungs[1].arms if arm in rungs[0].arms]
    small, large = (differences(rung.scores(arms)) for rung in rungs)
    return small, large


def part_table(docs: Path) -> str:
    """Returns the table of parts of the trainings at the largest scale."""
    rows = []
    for study, group in groupby(published(docs), key=lambda rung: rung.study):
        largest = {rung.task: rung for rung in group}.values()  # of each task the last scale
        for share in PARTS:
            known = [rung for rung in largest if np.isfinite(rung.losses_after(share)).any()]
            if known:
                small, large = (
                    np.concatenate([differences(rung.losses_after(part)) for rung in known])
                    for part in (share, 1.0)
                )
                rows.append([study, f"{share:g} of each training", f"{share:g}", *row(small, large)])
    return table(HEADER, rows) if rows else "No published study has evaluations within its trainings."


def probe_tables(docs: Path) -> str:
    """Returns a table for each two studies with common arms: the cheaper ones are the probes of the others.

    Each number is the rank correlation (Spearman) over the arms of a score of the probe, of one training of
    each arm, and the mean validation loss at a rung, negative; its mean and interval are those over seeds.
    """
    tables, every = [], published(docs)
    studies = list(dict.fromkeys(rung.study for rung in every))
    for probing, target in product(studies, studies):
        probes, others = ([rung for rung in every if rung.study == name] for name in (probing, target))
        rows = [[probe.name, *(_predicts(probe, rung) for rung in others)] for probe in probes]
        if probing != target and any(cell for _, *cells in rows for cell in cells):
            tables.append(table((f"{probing} for {target}", *(rung.name for rung in others)), rows))
    return "\n\n".join(tables) or f"No two published studies have {COMMON} arms with the same names."


def _predicts(probe: Rung, rung: Rung) -> str:
    """Returns how a probe predicts a rung; empty if it is not cheaper, or few arms have common names."""
    common = [name for name in rung.arms if name in probe.arms]
    costs = [(each.operations, each.seconds) for each in (probe, rung)]
    cheaper = (
        costs[0] < costs[1] if np.isfinite([cost for cost, _ in costs]).all() else costs[0][1] < costs[1][1]
    )
    if len(common) < COMMON or not cheaper:
        return ""
    losses = np.nanmean(rung.losses(common), axis=1)
    found = [_rank_correlation(scores, losses) for scores in probe.scores(common).T]
    shares = (np.array([each for each in found if np.isfinite(each)]) + 1) / 2  # from 0 to 1
    known = over_seeds(shares)
    correlation = known and (2 * known[0] - 1, 2 * known[1] - 1, 2 * known[2] - 1)
    return f"{_printed(correlation)}, {len(common)} arms"


def _rank_correlation(scores: Float[ndarray, " arms"], losses: Float[ndarray, " arms"]) -> float:
    """Returns Spearman's; NaN if an arm is missing, or all are equal."""
    from scipy.stats import spearmanr

    if not np.isfinite([scores, losses]).all() or min(np.ptp(scores), np.ptp(losses)) == 0:
        return nan
    return float(spearmanr(scores, losses).statistic)
