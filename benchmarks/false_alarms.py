"""How often studies find differences where there are none, and where there are.

    python benchmarks/false_alarms.py --studies 200

Each study has a baseline and four arms, each with five seeds or as many as `--seeds` says, and 300 test
examples on which models are right or wrong. Whether a model is right about an example has
three causes, whose variances are known: luck of its seed, a liking of its arm for some examples, and an
accident of this model on this example. On all other examples all arms are equally good, unless a
difference is planted.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import binomtest, norm

from plugformer_ablation.comparison import (
    ALPHA,
    PairedComparison,
    Scores,
    Verdict,
    compare,
    compare_at_looks,
    judge,
)
from plugformer_ablation.looks import planned_looks
from plugformer_ablation.statistics import resampled

ACCURACY = 0.8
RESAMPLES = 500  # a quarter of those of a study, which saves most of the time
Judged = tuple[PairedComparison, dict[str, Any]]
"""A comparison, and what the report of its study says of it."""

LOOKS = range(3, 13)
"""Numbers of seeds after which an impatient reader looks."""

PLANNED = (3, 5, 8, 12)
"""Numbers of seeds after which a study looks that has planned it."""

MARGIN = 0.05
"""The smallest effect that matters to it."""

_ASKED = 20  # studies whose minimum detectable differences are asked for


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


def study(
    world: World, number: int, planted: float = 0.0, arms: int = 4, seeds: int = 5, examples: int = 300
) -> list[Judged]:
    """Returns the comparisons of one study, each with its record.

    Args:
        world: Where it takes place.
        number: Seed of the simulation.
        planted: How much better the first arm is, in accuracy.
        arms: Besides the baseline.
        seeds: Of each arm.
        examples: In the test set.
    """
    baseline, *others = trained(world, number, [0.0, planted, *[0.0] * (arms - 1)], seeds, examples)
    return judged([compare(arm, baseline, range(seeds)) for arm in others])


def judged(comparisons: list[PairedComparison]) -> list[Judged]:
    """Returns the comparisons of one study, each with its record."""
    return list(zip(comparisons, judge(comparisons, higher_is_better=True), strict=True))


def trained(
    world: World, number: int, gains: Sequence[float], seeds: int, examples: int = 300
) -> list[Scores]:
    """Returns the scores of arms that are so much better, in accuracy, than the world's models."""
    generator = np.random.default_rng(number)
    difficulty = world.difficulty * generator.standard_normal(examples)
    cells = [
        statistics
        for gain in gains
        for statistics in _answers(world, ACCURACY + gain, seeds, difficulty, generator)
    ]
    scores = resampled(cells, lambda rows: float(rows.sum()) / len(rows), RESAMPLES, number)
    return [
        Scores(
            {seed: float(cells[first + seed].mean()) for seed in range(seeds)},
            {seed: scores[first + seed] for seed in range(seeds)},
            examples,
        )
        for first in range(0, len(cells), seeds)
    ]


def found_by_looking(number: int) -> np.ndarray:
    """Returns whether equal arms are called different after each number of seeds in `LOOKS`."""
    arm, baseline = trained(WORLDS[0], number, (0.0, 0.0), LOOKS[-1])
    looks = [judged([compare(arm, baseline, range(seeds))])[0][1]["verdict"] for seeds in LOOKS]
    return np.array([verdict in (Verdict.BETTER, Verdict.WORSE) for verdict in looks])


def with_planned_looks(gain: float, number: int) -> tuple[str, int, str]:
    """Returns the verdict of planned looks and when it came, then that of one look at all seeds."""
    arm, baseline = trained(WORLDS[1], number, (gain, 0.0), PLANNED[-1])
    verdicts = []
    for looks in (planned_looks(PLANNED, ALPHA), planned_looks(PLANNED[-1:], ALPHA)):
        found, look = compare_at_looks(
            arm, baseline, range(PLANNED[-1]), looks, MARGIN, higher_is_better=True
        )
        verdicts.append((str(found.verdict(look, MARGIN, higher_is_better=True)), look.seeds))
    return (*verdicts[0], verdicts[1][0])


def with_divergence(number: int) -> tuple[bool, bool]:
    """Returns whether an arm that diverges with half its seeds is called better, by the others and by all.

    It is better by 0.15 where it does not diverge; each of six seeds does with a probability of 0.5.
    """
    arm, baseline = trained(WORLDS[0], number, (0.15, 0.0), 6)
    diverged = np.flatnonzero(np.random.default_rng(-number % 2**32).random(6) < 0.5).tolist()
    left = {seed: score for seed, score in arm.scores.items() if seed not in diverged}
    failed = replace(arm, scores=left, failures=dict.fromkeys(diverged, "diverged"))
    compared = compare(failed, baseline, range(6))
    by_survivors, by_all = (judged([each])[0][1] for each in (replace(compared, failed=((), ())), compared))
    return by_survivors["verdict"] == Verdict.BETTER, by_all["verdict"] == Verdict.BETTER


def _answers(
    world: World, accuracy: float, seeds: int, difficulty: np.ndarray, generator: np.random.Generator
) -> Iterator[np.ndarray]:
    """Yields for each seed of an arm which examples it has right, (examples, 1)."""
    accident = np.sqrt(1 - world.seed**2 - world.liking**2 - world.difficulty**2)
    liking = world.liking * generator.standard_normal(len(difficulty))
    for _ in range(seeds):
        luck = world.seed * generator.standard_normal()
        noise = accident * generator.standard_normal(len(difficulty))
        right = norm.ppf(accuracy) + difficulty + liking + luck + noise > 0
        yield right[:, None].astype(float)


def alarms(judged: Iterable[tuple[Sequence[float | None], str]]) -> np.ndarray:
    """Returns for each comparison what would be called different, before and after correction.

    The columns: by seeds alone, by examples alone, by both together, and by the verdict, which is corrected.
    A test that does not apply finds nothing.

    Args:
        judged: The p of each of the three tests, and the verdict.
    """
    differences = (Verdict.BETTER, Verdict.WORSE)
    return np.array(
        [
            (*(p is not None and p <= ALPHA for p in tests), verdict in differences)
            for tests, verdict in judged
        ]
    )


def tested(judged: Iterable[Judged]) -> Iterator[tuple[Sequence[float | None], str]]:
    """Yields what `alarms` takes."""
    for comparison, record in judged:
        tests = (comparison.seeds, comparison.examples, comparison.both)
        yield [None if test is None else test.p for test in tests], record["verdict"]


def share(hits: np.ndarray) -> str:
    """Returns a share in percent with its exact 95 % interval."""
    result = binomtest(int(hits.sum()), len(hits))
    low, high = result.proportion_ci()
    return f"{100 * result.statistic:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def print_false_alarms(pool: Executor, studies: int, seeds: int) -> None:
    """Prints how often studies without any difference report one."""
    print("False alarms, % of comparisons, in brackets the 95 % interval of the share; last: % of studies")
    print("| world | seeds alone | examples alone | both together | studies, corrected |")
    print("| --- | --- | --- | --- | --- |")
    numbers = range(1, studies + 1)
    for world in WORLDS:
        found = np.array(
            [alarms(tested(each)) for each in pool.map(partial(study, world, seeds=seeds), numbers)]
        )
        cells = [share(column.ravel()) for column in np.moveaxis(found[..., :3], -1, 0)]
        print(f"| {world.name} | {' | '.join(cells)} | {share(found[..., 3].any(axis=1))} |", flush=True)


def print_power(pool: Executor, studies: int, seeds: int) -> None:
    """Prints how often studies find a planted difference, also one as large as they say they could see."""
    print("Power: % of studies that call a planted difference better, corrected for their comparisons")
    print("| world | planted: 5 points | 10 points | the minimum detectable difference |")
    print("| --- | --- | --- | --- |")
    for world in WORLDS:
        differences = [
            record["minimum_detectable_difference"]
            for judged in pool.map(partial(study, world, seeds=seeds), range(1, _ASKED + 1))
            for _, record in judged
        ]
        minimum = float(np.median([each for each in differences if each is not None]))
        cells = []
        for planted in (0.05, 0.1, minimum):
            found = pool.map(partial(study, world, planted=planted, seeds=seeds), range(1, studies + 1))
            cells.append(share(np.array([judged[0][1]["verdict"] == Verdict.BETTER for judged in found])))
        print(f"| {world.name} | {' | '.join(cells)} at {100 * minimum:.1f} points |", flush=True)


def print_looks(pool: Executor, studies: int) -> None:
    """Prints how often equal arms are called different by one look, and by looking after every seed."""
    found = np.array(list(pool.map(found_by_looking, range(1, studies + 1))))
    print(f"Equal arms, one comparison: % of {studies} studies that call them different")
    print(f"| look after each of {LOOKS[0]} to {LOOKS[-1]} seeds | only after {LOOKS[-1]} |")
    print("| --- | --- |")
    print(f"| {share(found.any(axis=1))} | {share(found[:, -1])} |", flush=True)


def print_planned_looks(pool: Executor, studies: int) -> None:
    """Prints what planned looks find, with how many seeds, beside one look at all seeds."""
    print(f"Planned looks after {PLANNED} seeds, {100 * MARGIN:.0f} points matter; % of {studies} studies")
    print("| planted | different | equivalent | seeds in the mean | one look: different | equivalent |")
    print("| --- | --- | --- | --- | --- | --- |")
    differences = (Verdict.BETTER, Verdict.WORSE)
    for gain in (0.0, MARGIN, 2 * MARGIN):
        found = list(pool.map(partial(with_planned_looks, gain), range(1, studies + 1), chunksize=20))
        planned, seeds, single = zip(*found, strict=True)
        cells = [
            share(np.array([verdict in wanted for verdict in verdicts]))
            for verdicts in (planned, single)
            for wanted in (differences, (Verdict.EQUIVALENT,))
        ]
        cells.insert(2, f"{np.mean(seeds):.1f}")
        print(f"| {100 * gain:.0f} points | {' | '.join(cells)} |", flush=True)


def print_divergence(pool: Executor, studies: int) -> None:
    """Prints how often an arm that diverges with half its seeds is called better."""
    found = np.array(list(pool.map(with_divergence, range(1, studies + 1))))
    print(f"An arm that diverges with half its seeds: of {studies} studies call it better")
    print("| by the seeds that are left | by the verdict |")
    print("| --- | --- |")
    print(f"| {found[:, 0].sum()} | {found[:, 1].sum()} |")


def main() -> None:
    """Prints false alarms, then power, looks and divergence."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--studies", type=int, default=200, help="without a difference, for each row")
    parser.add_argument("--planted", type=int, default=50, help="with one, for each figure")
    parser.add_argument("--looks", type=int, default=0, help="looked at again and again")
    parser.add_argument("--planned", type=int, default=0, help="with planned looks, for each row")
    parser.add_argument("--diverging", type=int, default=0, help="with an arm that often diverges")
    parser.add_argument("--seeds", type=int, default=5, help="trainings of each arm")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    with ProcessPoolExecutor(options.processes) as pool:
        if options.studies:
            print_false_alarms(pool, options.studies, options.seeds)
        if options.planted:
            print_power(pool, options.planted, options.seeds)
        if options.looks:
            print_looks(pool, options.looks)
        if options.planned:
            print_planned_looks(pool, options.planned)
        if options.diverging:
            print_divergence(pool, options.diverging)


if __name__ == "__main__":
    main()
