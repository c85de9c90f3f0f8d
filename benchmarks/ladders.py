"""How often the bands of power laws over a ladder of scales cover what is true.

    python benchmarks/ladders.py --studies 5000

Losses follow E + A C^-a over the operations C of scales, each with four times those of the one before. An
arm has after C operations the loss that the baseline has after 1.3 C. Each seed of each scale has its luck. A
band is asked for the multiplier, 1.3, at the largest scale, and for the loss of the baseline there and at ten
times its operations.
"""

from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

import numpy as np
from simulating import main, share

from plugformer_ablation.judging.ladder_laws import BEYOND, Rung, power_law

MULTIPLIER = 1.3


@dataclass(frozen=True)
class World:
    """What losses a ladder has: E, a, and the relative deviation over seeds at the smallest scale.

    `calmer` divides this deviation from one scale to the next.
    """

    name: str
    scales: int = 5
    seeds: int = 5
    irreducible: float = 1.0
    exponent: float = 0.3
    luck: float = 0.003
    calmer: float = 1.0


WORLDS = (
    World("five scales, five seeds"),
    World("four scales", scales=4),
    World("three seeds", seeds=3),
    World("a slow law, as of language models", scales=4, irreducible=1.7, exponent=0.1),
    World("seeds differ much", luck=0.01),
    World("seeds differ less at each larger scale", calmer=1.5),
)


def study(world: World, number: int) -> list[bool]:
    """Returns whether the bands of a study cover the multiplier and both losses."""
    generator = np.random.default_rng(number)
    baseline, arm = (list(trained(world, factor, generator)) for factor in (1.0, MULTIPLIER))
    law, ratio = power_law(baseline), power_law(arm, baseline)["multiplier"]
    covers = [(ratio["low"] or 0) <= MULTIPLIER <= (ratio["high"] or np.inf)]
    for x in (1.0, BEYOND):
        places = np.log(law["curve"]["operations"])
        low, high = (np.interp(np.log(x), places, law["curve"][end]) for end in ("low", "high"))
        covers.append(bool(low <= loss(world, x) <= high))
    return covers


def loss(world: World, operations: float) -> float:
    """Returns the true loss of the baseline after so many times the operations of the largest scale."""
    return float(world.irreducible + operations**-world.exponent)


def trained(world: World, factor: float, generator: np.random.Generator) -> Iterator[Rung]:
    """Yields the scales of an arm."""
    for number in range(world.scales):
        operations = 4.0 ** (number - world.scales + 1)
        luck = 1 + world.luck / world.calmer**number * generator.standard_normal(world.seeds)
        yield Rung(operations, loss(world, factor * operations) * luck)


def print_worlds(pool: Executor, studies: int) -> None:
    """Prints a row for each world."""
    print(f"% of {studies} studies whose 95 % bands cover what is true, in brackets the exact 95 % interval")
    print("| world | multiplier | loss at the largest scale | loss at ten times its operations |")
    print("| --- | --- | --- | --- |")
    for world in WORLDS:
        found = np.array(list(pool.map(partial(study, world), range(studies), chunksize=50)))
        print(f"| {world.name} | {' | '.join(map(share, found.T))} |", flush=True)


if __name__ == "__main__":
    main(__doc__, {"worlds": print_worlds}, 5000)
