"""Contrasts of arms: main effects and interactions of a grid, and how differences change with scale."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np

from plugformer_ablation.comparison import ALPHA, PairedComparison, Scores, compare
from plugformer_ablation.results import Record


class Contrast(NamedTuple):
    """A weighted sum of the scores of arms; the weights add up to 0."""

    name: str
    weights: Mapping[str, float]


def planned_contrasts(arms: Sequence[Record]) -> list[Contrast]:
    """Returns the contrasts that the arms of a study allow: of a grid, and of scales."""
    scales = list(dict.fromkeys(arm["values"].get("scale") for arm in arms))
    groups = [[arm for arm in arms if arm["values"].get("scale") == scale] for scale in scales]
    found = [contrast for group in groups for contrast in _of_grid(group)]
    for (smaller, few), (larger, many) in pairwise(zip(scales, groups, strict=True)):
        for one, other in zip(few[1:], many[1:], strict=True):
            name = one["name"].removeprefix(f"{smaller}: ")
            weights = {other["name"]: 1.0, many[0]["name"]: -1.0, one["name"]: -1.0, few[0]["name"]: 1.0}
            found.append(Contrast(f"{name}, {larger} against {smaller}", weights))
    return found


def _of_grid(arms: Sequence[Record]) -> Iterator[Contrast]:
    """Yields main effects and interactions of two factors, averaged over the other factors of a grid.

    Nothing for arms that are not all combinations of at least two factors.
    """
    levels: dict[str, list[str]] = {}
    for arm in arms:
        for factor, value in arm["values"].items():
            if factor != "scale" and value not in levels.setdefault(factor, []):
                levels[factor].append(value)
    if len(levels) < 2 or len(arms) != np.prod([len(values) for values in levels.values()]):
        return
    scale = f" at {arms[0]['values']['scale']}" if "scale" in arms[0]["values"] else ""
    for size in (1, 2):
        for factors in combinations(levels, size):
            for values in np.ndindex(*(len(levels[factor]) - 1 for factor in factors)):
                chosen = {factor: levels[factor][1 + n] for factor, n in zip(factors, values, strict=True)}
                kind = "main effect of" if size == 1 else "interaction of"
                named = " and ".join(f"{factor} {value}" for factor, value in chosen.items())
                yield Contrast(f"{kind} {named}{scale}", _weights(arms, levels, chosen))


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
    contrasts: Sequence[Contrast], scores: Mapping[str, Scores], seeds: Sequence[int]
) -> list[Record]:
    """Returns a record of each contrast: its value, and its interval over seeds and examples.

    The intervals are so wide that all of them hold together with 95 %: a family of its own.
    """
    level = 1 - ALPHA / max(len(contrasts), 1)
    records: list[dict[str, Any]] = []
    for contrast in contrasts:
        found = _compared(contrast, scores, seeds)
        low, high = found.interval(level) or (None, None)
        records.append(
            {
                "contrast": contrast.name,
                "weights": dict(contrast.weights),
                "pairs": found.pairs,
                "difference": found.difference,
                "level": level,
                "low": low,
                "high": high,
            }
        )
    return records


def _compared(contrast: Contrast, scores: Mapping[str, Scores], seeds: Sequence[int]) -> PairedComparison:
    """Compares the positive part of a contrast with the negative one, at the seeds that all arms have."""
    sides = []
    for sign in (1, -1):
        parts = [
            (sign * weight, scores[name]) for name, weight in contrast.weights.items() if sign * weight > 0
        ]
        common = [seed for seed in seeds if all(seed in part.scores for _, part in parts)]
        drawn = [seed for seed in common if all(seed in part.resampled for _, part in parts)]
        examples = {part.examples for _, part in parts}
        sides.append(
            Scores(
                {seed: sum(weight * part.scores[seed] for weight, part in parts) for seed in common},
                {
                    seed: np.sum([weight * part.resampled[seed] for weight, part in parts], axis=0)
                    for seed in drawn
                },
                examples.pop() if len(examples) == 1 else 0,
            )
        )
    shared = [seed for seed in seeds if all(seed in side.scores for side in sides)]
    return compare(sides[0], sides[1], shared)
