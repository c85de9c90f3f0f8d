"""Contrasts of arms: main effects and interactions of a grid, and how differences change with scale."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, groupby, pairwise
from typing import NamedTuple

import numpy as np

from plugformer_ablation.design.arms import SCALE, TASK, context_name, context_of, plain_name
from plugformer_ablation.judging.comparison import ALPHA, PairedComparison, Scores, broken, compare, ends
from plugformer_ablation.judging.results import Record


class Contrast(NamedTuple):
    """A weighted sum of the scores of arms; the weights add up to 0."""

    name: str
    weights: Mapping[str, float]


def planned_contrasts(arms: Sequence[Record]) -> list[Contrast]:
    """Returns the contrasts that the arms of a study allow: of a grid, and of scales."""
    groups = [list(group) for _, group in groupby(arms, key=lambda arm: context_of(arm["values"]))]
    found = [contrast for group in groups for contrast in _of_grid(group)]
    for few, many in pairwise(groups):
        smaller, larger = few[0]["values"], many[0]["values"]
        if smaller.get(TASK) != larger.get(TASK):
            continue
        for one, other in zip(few[1:], many[1:], strict=True):
            name = context_name({**one["values"], SCALE: ""}, plain_name(one["name"], one["values"]))
            weights = {other["name"]: 1.0, many[0]["name"]: -1.0, one["name"]: -1.0, few[0]["name"]: 1.0}
            found.append(Contrast(f"{name}, {larger[SCALE]} against {smaller[SCALE]}", weights))
    return found


def _of_grid(arms: Sequence[Record]) -> Iterator[Contrast]:
    """Yields main effects and interactions of two factors, averaged over the other factors of a grid.

    Nothing for arms that are not all combinations of at least two factors.
    """
    levels: dict[str, list[str]] = {}
    for arm in arms:
        for factor, value in arm["values"].items():
            if factor not in (TASK, SCALE) and value not in levels.setdefault(factor, []):
                levels[factor].append(value)
    if len(levels) < 2 or len(arms) != np.prod([len(values) for values in levels.values()]):
        return
    context = context_of(arms[0]["values"])
    where = f" at {', '.join(context)}" if context else ""
    for size in (1, 2):
        for factors in combinations(levels, size):
            for values in np.ndindex(*(len(levels[factor]) - 1 for factor in factors)):
                chosen = {factor: levels[factor][1 + n] for factor, n in zip(factors, values, strict=True)}
                kind = "main effect of" if size == 1 else "interaction of"
                named = " and ".join(f"{factor} {value}" for factor, value in chosen.items())
                yield Contrast(f"{kind} {named}{where}", _weights(arms, levels, chosen))


def _weights(
    arms: Sequence[Record], levels: Mapping[str, list[str]], chosen: Mapping[str, str]
) -> dict[str, float]:
    """Returns products of +1 for a chosen value and -1 for the first one, over what the others combine."""
    others = np.prod([len(values) for factor, values in levels.items() if factor not in chosen])
    weights = {}
    for arm in arms:
        signs = [
            1 if arm["values"][factor] == value else -1 if arm["values"][factor] == levels[factor][0] else 0
            for factor, value in chosen.items()
        ]
        weights[arm["name"]] = float(np.prod(signs) / others)
    return {name: weight for name, weight in weights.items() if weight}


def judge_contrasts(
    contrasts: Sequence[Contrast], scores: Mapping[str, Scores], seeds: Sequence[int], chance: float = ALPHA
) -> list[Record]:
    """Returns a record of each contrast: its value, and its interval over seeds and examples.

    The intervals are so wide that the chance that any of them errs is `chance`: a family of its own. `broken`
    are the seeds of each arm that failed or diverged: what is left is a selection, which shows nothing.
    """
    level = 1 - chance / max(len(contrasts), 1)
    records: list[Record] = []
    for contrast in contrasts:
        found = _compared(contrast, scores, seeds)
        records.append(
            {
                "contrast": contrast.name,
                "weights": dict(contrast.weights),
                "pairs": found.pairs,
                "difference": found.difference,
                "level": level,
                **ends(found.interval(level) if found.both else None),  # of examples alone: nothing
                "broken": {
                    name: failed for name in contrast.weights if (failed := broken(scores[name], seeds))
                },
            }
        )
    return records


def differs(contrast: Record) -> bool:
    """Whether a contrast is shown to differ from 0."""
    known = contrast["low"] is not None and not contrast["broken"]
    return known and not contrast["low"] <= 0 <= contrast["high"]


def _compared(contrast: Contrast, scores: Mapping[str, Scores], seeds: Sequence[int]) -> PairedComparison:
    """Compares the positive part of a contrast with the negative one, at the seeds that all arms have."""
    ours, theirs = (
        summed(
            [(sign * weight, scores[name]) for name, weight in contrast.weights.items() if sign * weight > 0]
        )
        for sign in (1, -1)
    )
    return compare(ours, theirs, [seed for seed in seeds if seed in ours.scores and seed in theirs.scores])


def summed(parts: Sequence[tuple[float, Scores]]) -> Scores:
    """Returns the weighted sum of scores, of the seeds that all of them have.

    Those of one task share the draws of test examples. The degrees of freedom over examples are those of the
    smallest test set. A training that failed or diverged has done so in the sum.
    """
    first = parts[0][1]
    common = [seed for seed in first.scores if all(seed in part.scores for _, part in parts)]
    drawn = [seed for seed in common if all(seed in part.resampled for _, part in parts)]
    return Scores(
        {seed: sum(weight * part.scores[seed] for weight, part in parts) for seed in common},
        {seed: np.sum([weight * part.resampled[seed] for weight, part in parts], axis=0) for seed in drawn},
        min(part.examples for _, part in parts),
        {seed: reason for _, part in parts for seed, reason in part.failures.items()},
        frozenset().union(*(part.diverged for _, part in parts)),
    )
