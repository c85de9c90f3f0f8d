"""How often studies find differences where there are none, and where there are.

    python benchmarks/false_alarms.py designs --studies 10000

Each study has a baseline and four arms, each with five seeds, and 300 test examples on which models are right
or wrong. Whether a model is right about an example has three causes, whose variances are known: luck of its
seed, a liking of its arm for some examples, and an accident of this model on this example. On all other
examples all arms are equally good, unless a difference is planted. What the models scored is judged by the
code that judges studies.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.special import ndtri
from simulating import main, share

from plugformer_ablation.judging.comparison import (
    ALPHA,
    PairedComparison,
    Scores,
    Verdict,
    compare,
    compare_at_looks,
    judge,
)
from plugformer_ablation.judging.contrasts import judge_contrasts, planned_contrasts
from plugformer_ablation.judging.looks import planned_looks
from plugformer_ablation.judging.records import LookRecord
from plugformer_ablation.judging.results import CellResult
from plugformer_ablation.judging.unplanned import family_of, with_look
from plugformer_ablation.running.tuning import _best

ACCURACY = 0.8
DIFFERENCES = (Verdict.BETTER, Verdict.WORSE)
EXAMPLES = 300

UNTRAINED = 0.1
"""Accuracy of a training that has diverged."""

DIVERGING = 0.1
"""The share of trainings that diverge, in the designs where some do."""

SETTINGS = (0.0, -0.02, -0.05)
"""What each of the settings that arms try costs them, in accuracy."""

SCALES = {"small": 0.0, "medium": 0.05, "large": 0.1}
"""How much better the models of each scale are, in accuracy."""

ARMS = 3
"""Arms of the designs, the baseline included: fewer comparisons leave more of each other's chances."""

LOOKS = range(3, 13)
"""Numbers of seeds after which an impatient reader looks."""

PLANNED = (3, 5, 8, 12)
"""Numbers of seeds after which a study looks that has planned it."""

MARGIN = 0.05
"""The smallest effect that matters to it."""

Judged = tuple[PairedComparison, Mapping[str, Any]]
"""A comparison, and what the report of its study says of it."""

Verdicts = list[str]
"""What a study says of each of its comparisons."""


@dataclass(frozen=True)
class World:
    """What makes the models of a study right or wrong.

    Attributes:
        name: In words.
        seed: Standard deviation of a seed's luck, on a scale on which all causes together have 1.
        liking: Standard deviation of an arm's liking for an example.
        difficulty: Standard deviation of what an example is for all arms alike.
    """

    name: str
    seed: float
    liking: float
    difficulty: float = 0.6


WORLDS = (
    World("arms differ in name alone", seed=0.06, liking=0.0),
    World("seeds matter more than examples", seed=0.12, liking=0.3),
    World("seeds and examples matter alike", seed=0.06, liking=0.5),
    World("seeds and examples matter alike, and much", seed=0.15, liking=0.7),
    World("examples matter more than seeds", seed=0.02, liking=0.5),
    World("seeds do not matter", seed=0.0, liking=0.5),
)
CHOSEN = (WORLDS[0], WORLDS[1], WORLDS[3])
"""The worlds in which all designs are tried."""


def answers(
    world: World, number: int | Sequence[int], gains: Sequence[float], seeds: int, examples: int = EXAMPLES
) -> np.ndarray:
    """Returns which examples are answered right, (arms, seeds, examples).

    Args:
        world: Where the study takes place.
        number: Seed of the simulation.
        gains: How much better than the world's models each arm is, in accuracy.
        seeds: Of each arm.
        examples: In the test set.
    """
    generator = np.random.default_rng(number)
    accident = np.sqrt(1 - world.seed**2 - world.liking**2 - world.difficulty**2)
    able = ndtri(ACCURACY + np.array(gains))[:, None, None]
    difficulty = world.difficulty * generator.standard_normal(examples)
    liking = world.liking * generator.standard_normal((len(gains), 1, examples))
    luck = world.seed * generator.standard_normal((len(gains), seeds, 1))
    noise = accident * generator.standard_normal((len(gains), seeds, examples))
    right: np.ndarray = able + difficulty + liking + luck + noise > 0
    return right


def scored(right: np.ndarray, diverged: np.ndarray | None = None) -> list[Scores]:
    """Returns the scores of arms; `diverged` is by arm and seed.

    A study resamples test sets for the covariances of scores over them. Of means, with ever more resamples,
    these become the covariances of examples over their number, so that examples take the place of resamples.
    """
    examples = right.shape[-1]
    moved = right * np.sqrt(examples - 1) / examples
    return [
        Scores(
            dict(enumerate(arm.mean(axis=1).tolist())),
            dict(enumerate(moved[number])),
            examples,
            diverged=frozenset(() if diverged is None else np.flatnonzero(diverged[number]).tolist()),
        )
        for number, arm in enumerate(right)
    ]


def study(
    world: World, number: int, planted: float = 0.0, arms: int = 4, seeds: int = 5, examples: int = EXAMPLES
) -> list[Judged]:
    """Returns the comparisons of one study, each with its record; its first arm is better by `planted`."""
    right = answers(world, number, [0.0, planted, *[0.0] * (arms - 1)], seeds, examples)
    baseline, *others = scored(right)
    return judged([compare(arm, baseline, range(seeds)) for arm in others])


def judged(comparisons: list[PairedComparison]) -> list[Judged]:
    """Returns the comparisons of one study, each with its record."""
    (look,) = planned_looks((max(each.pairs for each in comparisons),), ALPHA / len(comparisons))
    return [(each, judge(each, look, higher_is_better=True)) for each in comparisons]


def verdicts(
    groups: Sequence[Sequence[Scores]], looks: Sequence[int] = (5,), smallest: float | None = None
) -> Verdicts:
    """Returns what a study says whose looks are planned; each group is a baseline with its arms."""
    return [verdict for verdict, _ in decided(groups, looks, smallest)]


def decided(
    groups: Sequence[Sequence[Scores]], looks: Sequence[int], smallest: float | None = None
) -> list[tuple[str, int]]:
    """Returns each verdict of a study whose looks are planned, with the number of seeds of its look."""
    pairs = [(arm, group[0]) for group in groups for arm in group[1:]]
    planned = planned_looks(tuple(looks), ALPHA / len(pairs))
    found = [
        compare_at_looks(*pair, range(looks[-1]), planned, smallest, higher_is_better=True) for pair in pairs
    ]
    return [
        (str(each.verdict(look, effect, higher_is_better=True)), look.seeds) for each, look, effect in found
    ]


def with_looks(world: World, number: int, looks: Sequence[int] = (5,)) -> Verdicts:
    """A study of arms that are all alike."""
    return verdicts([scored(answers(world, number, [0.0] * ARMS, looks[-1]))], looks)


def at_scales(world: World, number: int, seeds: int) -> list[list[Scores]]:
    """Returns the same arms, which are all alike, at each of three scales; large models are better."""
    gains = [gain for gain in SCALES.values() for _ in range(ARMS)]
    arms = scored(answers(world, number, gains, seeds))
    return [arms[first : first + ARMS] for first in range(0, len(arms), ARMS)]


def with_scales(world: World, number: int, looks: Sequence[int] = (5,)) -> Verdicts:
    """Compares arms within each scale."""
    return verdicts(at_scales(world, number, looks[-1]), looks)


def between_scales(world: World, number: int) -> Verdicts:
    """Returns how differences change with the scale; no contrast should exclude 0."""
    names = [(scale, f"{scale}: {arm}") for scale in SCALES for arm in range(ARMS)]
    records = [{"name": name, "values": {"scale": scale}} for scale, name in names]
    arms = [arm for group in at_scales(world, number, 5) for arm in group]
    scores = {name: arm for (_, name), arm in zip(names, arms, strict=True)}
    contrasts = judge_contrasts(planned_contrasts(records), scores, range(5))
    return [Verdict.BETTER for each in contrasts if not each["low"] <= 0 <= each["high"]]


def with_divergence(world: World, number: int, looks: Sequence[int] = (5,)) -> Verdicts:
    """A study of arms that are all alike, in which every tenth training diverges."""
    right = answers(world, number, [0.0] * ARMS, looks[-1])
    generator = np.random.default_rng([number, 1])
    diverged = generator.random(right.shape[:2]) < DIVERGING
    right = np.where(diverged[..., None], generator.random(right.shape) < UNTRAINED, right)
    return verdicts([scored(right, diverged)], looks)


def then_the_best(world: World, number: int) -> Verdicts:
    """Ten arms that are all alike, with five seeds, then the most promising one alone with ten."""
    right = answers(world, number, [0.0] * 11, 10)
    chosen: Sequence[int] = range(1, 11)
    looks: list[LookRecord] = []
    found: Verdicts = []
    for seeds in (5, 10):
        arms = scored(right[:, :seeds])
        plan = {"seeds": [*range(seeds)], "looks": [seeds], "smallest_effect": None}
        pairs = {str(arm): f"0-{arm}" for arm in chosen}
        family = family_of(pairs, looks, plan, pairs)
        compared = {arm: compare(arms[arm], arms[0], range(seeds)) for arm in chosen}
        told = {}
        for arm, comparison in compared.items():
            look = planned_looks((seeds,), family.chances[str(arm)] / family.number)[0]
            told[str(arm)] = str(comparison.verdict(look, None, higher_is_better=True))
        looks = with_look(pairs, looks, plan, told, pairs)
        found += told.values()
        chosen = [max((each.difference or 0.0, arm) for arm, each in compared.items())[1]]
    return found


def with_tuning(
    world: World, number: int, trials: int, seeds: int = 5, gains: Sequence[float] = (0.0,) * ARMS
) -> Verdicts:
    """Each arm chooses one of three settings by so many seeds of its own; then they are compared."""
    return verdicts([once_tuned(world, number, trials, seeds, gains)[0]], (seeds,))


def alike_with_tuning(world: World, number: int, trials: int, seeds: int = 5) -> Verdicts:
    """The same, of arms that are all alike and have chosen the setting of their baseline."""
    arms, (first, *others) = once_tuned(world, number, trials, seeds, (0.0,) * ARMS)
    found = zip(verdicts([arms], (seeds,)), others, strict=True)
    return [verdict for verdict, chosen in found if chosen == first]


def once_tuned(
    world: World, number: int, trials: int, seeds: int, gains: Sequence[float]
) -> tuple[list[Scores], list[int]]:
    """Returns the scores of arms at the settings that they have chosen, and which these are."""
    every = [gain + cost for gain in gains for cost in SETTINGS]
    tried = answers(world, [number, 2], every, trials).mean(axis=2)
    chosen = [best_setting(arm) for arm in tried.reshape(len(gains), len(SETTINGS), trials)]
    taken = [gain + SETTINGS[setting] for gain, setting in zip(gains, chosen, strict=True)]
    return scored(answers(world, number, taken, seeds)), chosen


def with_tuning_by_seed(
    world: World, number: int, looks: Sequence[int] = (5,), gains: Sequence[float] = (0.0,) * ARMS
) -> Verdicts:
    """Each seed of each arm chooses one of three settings for itself; then they are compared.

    A model is right about validation and about test examples by the same luck of its seed; likings of arms
    with a setting for examples are those of all seeds, also of validation examples, which are the same ones.
    """
    every = [gain + cost for gain in gains for cost in SETTINGS]
    right = answers(world, number, every, looks[-1], 2 * EXAMPLES)
    right = right.reshape(len(gains), len(SETTINGS), looks[-1], 2, EXAMPLES)
    chosen = []
    for arm in right:
        validation = arm[:, :, 0].mean(axis=2)
        best = [best_setting(validation[:, [seed]]) for seed in range(looks[-1])]
        chosen.append([arm[setting, seed, 1] for seed, setting in enumerate(best)])
    return verdicts([scored(np.array(chosen))], looks)


def best_setting(tried: np.ndarray) -> int:
    """Returns the setting that a study chooses, by the scores of trials, (settings, seeds)."""
    trials = [
        (
            SimpleNamespace(name="arm", metric="accuracy", number=number),
            [CellResult("arm", 0, -score, {"accuracy": score}) for score in scores],
        )
        for number, scores in enumerate(tried.tolist())
    ]
    metrics = {"arm": {"accuracy": SimpleNamespace(higher_is_better=True)}}
    best: Any = _best
    return int(best(trials, SimpleNamespace(metrics=metrics)).number)


DESIGNS: dict[str, Callable[[World, int], Verdicts]] = {
    "one look at 5 seeds": with_looks,
    "looks after 3, 5, 8 and 12 seeds": partial(with_looks, looks=PLANNED),
    "three scales": with_scales,
    "contrasts between three scales": between_scales,
    "1 training in 10 diverges": with_divergence,
    "ten arms, then the most promising one alone (at most 7.5 %)": then_the_best,
    "settings chosen by each of 5 seeds": with_tuning_by_seed,
    "settings chosen by each of 12 seeds": partial(with_tuning_by_seed, looks=(12,)),
    "settings chosen by each seed, the same looks": partial(with_tuning_by_seed, looks=PLANNED),
    "settings chosen by 1 trial": partial(with_tuning, trials=1),
    "the same, arms that chose the same": partial(alike_with_tuning, trials=1),
    "three scales, the same looks": partial(with_scales, looks=PLANNED),
    "1 training in 10 diverges, the same looks": partial(with_divergence, looks=PLANNED),
    "settings chosen by 5 trials, 12 seeds": partial(with_tuning, trials=5, seeds=12),
    "the same 12 seeds, arms that chose the same": partial(alike_with_tuning, trials=5, seeds=12),
}
"""Studies without any difference."""


def any_difference(design: Callable[[World, int], Verdicts], world: World, number: int) -> bool:
    """Returns whether a study reports a difference."""
    return any(verdict in DIFFERENCES for verdict in design(world, number))


def print_designs(pool: Executor, studies: int) -> None:
    """Prints how many studies without any difference report one, by design and world."""
    print(f"Studies without any difference that report one, % of {studies}")
    print(f"| design | {' | '.join(world.name for world in CHOSEN)} | all |")
    print("| --- | --- | --- | --- | --- |")
    for name, design in DESIGNS.items():
        hits = [
            list(pool.map(partial(any_difference, design, world), range(1, studies + 1), chunksize=50))
            for world in CHOSEN
        ]
        cells = [share(each) for each in [*map(np.array, hits), np.concatenate(hits)]]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def found_by_looking(number: int) -> np.ndarray:
    """Returns whether equal arms are called different after each number of seeds in `LOOKS`."""
    pair = scored(answers(WORLDS[0], number, (0.0, 0.0), LOOKS[-1]))
    return np.array([verdicts([pair], (seeds,))[0] in DIFFERENCES for seeds in LOOKS])


def with_planned_looks(world: World, gain: float, number: int) -> tuple[str, int, str]:
    """Returns the verdict of planned looks and when it came, then that of one look at all seeds."""
    baseline, arm = scored(answers(world, number, (0.0, gain), PLANNED[-1]))
    group = [[baseline, arm]]
    ((planned, seeds),) = decided(group, PLANNED, MARGIN)
    return planned, seeds, verdicts(group, PLANNED[-1:], MARGIN)[0]


def better_though_diverging(number: int) -> tuple[bool, bool]:
    """Returns whether an arm that diverges with half its seeds is called better, by the others and by all.

    It is better by 0.15 where it does not diverge; each of six seeds does with a probability of 0.5.
    """
    baseline, arm = scored(answers(WORLDS[0], number, (0.0, 0.15), 6))
    diverged = np.flatnonzero(np.random.default_rng([number, 3]).random(6) < 0.5).tolist()
    left = {seed: score for seed, score in arm.scores.items() if seed not in diverged}
    failed = replace(arm, scores=left, failures=dict.fromkeys(diverged, "diverged"))
    compared = compare(failed, baseline, range(6))
    by_survivors, by_all = (judged([each])[0][1] for each in (replace(compared, failed=((), ())), compared))
    return by_survivors["verdict"] == Verdict.BETTER, by_all["verdict"] == Verdict.BETTER


def alarms(judged: Iterable[tuple[Sequence[float | None], str]]) -> np.ndarray:
    """Returns for each comparison what would be called different, before and after correction.

    The columns: by seeds alone, by examples alone, by both together, and by the verdict, which is corrected.
    A test that does not apply finds nothing.

    Args:
        judged: The p of each of the three tests, and the verdict.
    """
    return np.array(
        [
            (*(p is not None and p <= ALPHA for p in tests), verdict in DIFFERENCES)
            for tests, verdict in judged
        ]
    )


def tested(judged: Iterable[Judged]) -> Iterator[tuple[Sequence[float | None], str]]:
    """Yields what `alarms` takes."""
    for comparison, record in judged:
        tests = (comparison.seeds, comparison.examples, comparison.both)
        yield [None if test is None else test.p for test in tests], record["verdict"]


def print_alike(pool: Executor, studies: int) -> None:
    """Prints how often each test calls arms different that are alike."""
    print(f"False alarms, % of comparisons in {studies} studies; last: % of studies")
    print("| world | seeds alone | examples alone | both together | studies, corrected |")
    print("| --- | --- | --- | --- | --- |")
    numbers = range(1, studies + 1)
    for world in WORLDS:
        found = np.array(
            [alarms(tested(each)) for each in pool.map(partial(study, world), numbers, chunksize=50)]
        )
        cells = [share(column.ravel()) for column in np.moveaxis(found[..., :3], -1, 0)]
        print(f"| {world.name} | {' | '.join(cells)} | {share(np.any(found[..., 3], axis=1))} |", flush=True)


def print_planted(pool: Executor, studies: int) -> None:
    """Prints how often studies find a planted difference."""
    print(f"Power: % of {studies} studies that call a planted difference better, corrected")
    print("| world | planted: 5 points | 10 points |")
    print("| --- | --- | --- |")
    for world in WORLDS:
        cells = []
        for planted in (0.05, 0.1):
            found = pool.map(partial(study, world, planted=planted), range(1, studies + 1), chunksize=50)
            cells.append(share([judged[0][1]["verdict"] == Verdict.BETTER for judged in found]))
        print(f"| {world.name} | {' | '.join(cells)} |", flush=True)


def print_tuned(pool: Executor, studies: int) -> None:
    """Prints what studies find of one arm that is better, with 15 trainings of each arm to tune and judge."""
    print(f"15 trainings of each arm, which tries 3 settings: % of {studies} studies that call the arm")
    print("| world | planted | choice | better | worse, or another arm different |")
    print("| --- | --- | --- | --- | --- |")
    designs: dict[str, Callable[..., Verdicts]] = {
        "by each of 5 seeds": with_tuning_by_seed,
        "once, by 1 trial; 12 seeds": partial(with_tuning, trials=1, seeds=12),
        "once, by 3 trials; 6 seeds": partial(with_tuning, trials=3, seeds=6),
    }
    for world, planted, name in product(CHOSEN, (0.05, 0.1), designs):
        design = partial(designs[name], world, gains=(0.0, planted, *(0.0,) * (ARMS - 2)))
        found = list(pool.map(design, range(1, studies + 1), chunksize=50))
        better = [first == Verdict.BETTER for first, *_ in found]
        wrong = [first == Verdict.WORSE or any(v in DIFFERENCES for v in rest) for first, *rest in found]
        cells = (f"{100 * planted:g} points", name, share(better), share(wrong))
        print(f"| {world.name} | {' | '.join(cells)} |", flush=True)


def print_impatient(pool: Executor, studies: int) -> None:
    """Prints how often equal arms are called different by one look, and by looking after every seed."""
    found = np.array(list(pool.map(found_by_looking, range(1, studies + 1), chunksize=50)))
    print(f"Equal arms, one comparison: % of {studies} studies that call them different")
    print(f"| look after each of {LOOKS[0]} to {LOOKS[-1]} seeds | only after {LOOKS[-1]} |")
    print("| --- | --- |")
    print(f"| {share(np.any(found, axis=1))} | {share(found[:, -1])} |", flush=True)


def print_looks(pool: Executor, studies: int) -> None:
    """Prints what planned looks find, with how many seeds, beside one look at all seeds."""
    print(f"Planned looks after {PLANNED} seeds, {100 * MARGIN:.0f} points matter; % of {studies} studies")
    print("| planted | different | equivalent | seeds in the mean | one look: different | equivalent |")
    print("| --- | --- | --- | --- | --- | --- |")
    for gain in (0.0, MARGIN / 2, MARGIN, 2 * MARGIN):
        design = partial(with_planned_looks, WORLDS[1], gain)
        found = list(pool.map(design, range(1, studies + 1), chunksize=50))
        planned, seeds, single = zip(*found, strict=True)
        cells = [
            share([verdict in wanted for verdict in verdicts])
            for verdicts in (planned, single)
            for wanted in (DIFFERENCES, (Verdict.EQUIVALENT,))
        ]
        cells.insert(2, f"{np.mean(seeds):.1f}")
        print(f"| {100 * gain:g} points | {' | '.join(cells)} |", flush=True)


def print_diverging(pool: Executor, studies: int) -> None:
    """Prints how often an arm that diverges with half its seeds is called better."""
    found = np.array(list(pool.map(better_though_diverging, range(1, studies + 1))))
    print(f"An arm that diverges with half its seeds: of {studies} studies call it better")
    print("| by the seeds that are left | by the verdict |")
    print("| --- | --- |")
    print(f"| {found[:, 0].sum()} | {found[:, 1].sum()} |", flush=True)


TABLES = {
    "alike": print_alike,
    "designs": print_designs,
    "planted": print_planted,
    "tuned": print_tuned,
    "impatient": print_impatient,
    "looks": print_looks,
    "diverging": print_diverging,
}


if __name__ == "__main__":
    main(__doc__, TABLES, 1000)
