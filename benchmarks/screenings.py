"""How often screenings of many arms err, and what they find.

    python benchmarks/screenings.py screened --studies 300

Arms are right or wrong about test examples as in `false_alarms.py`, or have normal scores. The code of
studies chooses those that go on and judges them.
"""

from concurrent.futures import Executor
from functools import partial

import numpy as np
from false_alarms import CHOSEN, DIFFERENCES, World, answers, scored, verdicts
from simulating import main, share

from plugformer_ablation.design.blocks import Screening
from plugformer_ablation.judging.comparison import Scores, Verdict
from plugformer_ablation.running.screening import discoveries, moderated

MANY, GAIN = 100, 0.1
"""Arms that are screened, and by how much those that differ do, in accuracy."""


def with_screening(world: World, share: float, number: int) -> list[float]:
    """Screens many arms, of which a share is better or worse by `GAIN`, and confirms with 5 seeds.

    Returns how many arms go on, the share of them that do not differ, whether the verdict errs on one, how
    many differences it finds, and how many a study finds that compares all arms with 5 seeds.
    """
    signs = np.random.default_rng([number, 4]).choice([-1, 1, 0], MANY, p=[share / 2, share / 2, 1 - share])
    gains = [0.0, *(GAIN * signs).tolist()]
    tried = dict(enumerate(scored(answers(world, [number, 5], gains, Screening().seeds))))
    p = moderated({str(arm): each for arm, each in tried.items()}, range(Screening().seeds))
    kept = sorted(int(arm) for arm in discoveries(p, Screening().rate))
    trained = scored(answers(world, [number, 6], gains, 5))
    called = verdicts([[trained[arm] for arm in (0, *kept)]]) if kept else []
    wrong = [verdict in DIFFERENCES for arm, verdict in zip(kept, called, strict=True) if not gains[arm]]
    right = sum(map(_is_right, [gains[arm] for arm in kept], called))
    directly = sum(map(_is_right, gains[1:], verdicts([trained]))) if share else 0
    return [len(kept), len(wrong) / max(len(kept), 1), any(wrong), right, directly]


def _is_right(gain: float, verdict: str) -> bool:
    """Returns whether a verdict calls an arm better or worse that is."""
    return bool(gain) and verdict == (Verdict.BETTER if gain > 0 else Verdict.WORSE)


def with_variances(spread: float, baseline: float, share: float, seeds: int, number: int) -> list[float]:
    """Returns how many arms a screening finds, and how many of them do not differ; scores are normal.

    Args:
        spread: Standard deviation of the logarithms of the arms' deviations over seeds.
        baseline: How many times as large that of the baseline is.
        share: Of arms that differ, by five of these deviations.
        seeds: Of the screening.
        number: Seed of the simulation.
    """
    generator = np.random.default_rng(number)
    deviations = np.exp(spread * generator.standard_normal(MANY + 1))
    deviations[0] *= baseline
    gains = np.where(generator.random(MANY + 1) < share, 5 * generator.choice([-1, 1], MANY + 1), 0.0)
    gains[0] = 0.0
    values = gains[:, None] + deviations[:, None] * generator.standard_normal((MANY + 1, seeds))
    values += 2 * generator.standard_normal(seeds)  # what a seed does to all arms
    arms = {str(arm): Scores(dict(enumerate(row))) for arm, row in enumerate(values.tolist())}
    kept = discoveries(moderated(arms, range(seeds)), Screening().rate)
    return [len(kept), sum(gains[int(arm)] == 0 for arm in kept)]


def print_variances(pool: Executor, studies: int) -> None:
    """Prints the false discovery rate of a screening of arms that vary differently."""
    print(f"{MANY} arms, of which a tenth differs; false discovery rate in %, {studies} studies a row")
    print("| deviations of arms | baseline's | 2 seeds: none differs | a tenth | 3 seeds: none | a tenth |")
    print("| --- | --- | --- | --- | --- | --- |")
    for spread in (0.0, 0.3, 0.6):
        for baseline in (1.0, 2.0):
            cells = []
            for seeds in (2, 3):
                for differing in (0.0, 0.1):
                    design = partial(with_variances, spread, baseline, differing, seeds)
                    kept, false = np.array(list(pool.map(design, range(studies), chunksize=10))).T
                    cells.append(f"{100 * np.mean(false / np.maximum(kept, 1)):.1f}")
            print(f"| e^{spread:g}N | {baseline:g} times | {' | '.join(cells)} |", flush=True)


def print_screened(pool: Executor, studies: int) -> None:
    """Prints error rates and power of screenings that verdicts follow."""
    print(f"{MANY} arms screened with {Screening().seeds} seeds, confirmed with 5; {studies} studies a row")
    print(
        "| world | arms that differ | go on | false discovery rate, % | verdicts err, % | found | at once |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for differing in (0.0, 0.1):
        for world in CHOSEN:
            design = partial(with_screening, world, differing)
            found = np.array(list(pool.map(design, range(1, studies + 1), chunksize=10)))
            kept, false, err, right, directly = found.T
            low, high = (100 * (false.mean() + side * 1.96 * false.std() / studies**0.5) for side in (-1, 1))
            cells = [f"{differing * MANY:.0f}", f"{kept.mean():.1f}"]
            cells += [f"{100 * false.mean():.1f} [{max(low, 0):.1f}, {high:.1f}]", share(err)]
            cells += [f"{right.mean():.1f}", f"{directly.mean():.1f}"]
            print(f"| {world.name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(__doc__, {"screened": print_screened, "variances": print_variances}, 100)
