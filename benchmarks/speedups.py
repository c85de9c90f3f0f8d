"""How often the interval of a speedup at equal loss covers the true one.

    python benchmarks/speedups.py --studies 5000

Validation losses follow E + A t^-a over the updates t of a training, 1 at its end, with E = A = 1. An arm
with a speedup of k has after t updates the loss that the baseline has after k t. A whole training is better
or worse by the luck of its seed, and an evaluation by that of its moment. The last world is none that the
method knows: the learning rate decays over the last fifth of each training, which lowers the loss by a
further 0.1, so that a shorter training would be better than as many updates of a longer one.
"""

from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from math import log

import numpy as np
from simulating import main, share

from plugformer_ablation.judging.currency import speedup
from plugformer_ablation.judging.results import CellResult

STEPS = 1000
COST = {"cost": {"flops": 1.0, "update": None}, "choices": ()}


@dataclass(frozen=True)
class World:
    """What makes the curves of a study.

    Attributes:
        name: In words.
        speedup: Of the arm.
        seeds: Pairs of trainings.
        evaluations: Of each, at equal distances.
        seed: Standard deviation of a training's luck, in nats.
        moment: Standard deviation of an evaluation's luck, in nats.
        exponent: How fast losses fall.
        decay: By how much more they fall in the last fifth.
    """

    name: str
    speedup: float
    seeds: int = 5
    evaluations: int = 10
    seed: float = 0.01
    moment: float = 0.003
    exponent: float = 0.3
    decay: float = 0.0


WORLDS = (
    World("arms are alike", 1.0),
    World("the arm is faster", 1.3),
    World("the arm is twice as fast", 2.0),
    World("the arm is slower", 0.7),
    World("three seeds", 1.3, seeds=3),
    World("ten seeds", 1.3, seeds=10),
    World("four evaluations", 1.3, evaluations=4),
    World("seeds differ much", 1.3, seed=0.03),
    World("curves are flat", 1.3, exponent=0.1),
    World("forty noisy evaluations", 1.3, evaluations=40, moment=0.01),
    World("forty noisy evaluations, arms are nearly alike", 1.05, evaluations=40, seed=0.003, moment=0.01),
    World("forty very noisy evaluations", 1.3, evaluations=40, moment=0.03),
    World("a decay at the end", 1.3, decay=0.1),
)


def study(world: World, number: int) -> tuple[float, bool] | None:
    """Returns the speedup that a simulated study finds, and whether its interval covers the true one."""
    generator = np.random.default_rng(number)
    arm, baseline = (
        [training(world, factor, seed, generator) for seed in range(world.seeds)]
        for factor in (world.speedup, 1.0)
    )
    found = speedup(arm, baseline, COST, COST).get("updates")
    return found and (found["ratio"], found["low"] <= world.speedup <= found["high"])


def training(world: World, factor: float, seed: int, generator: np.random.Generator) -> CellResult:
    """Returns a cell with its curve."""
    share = np.linspace(0, 1, world.evaluations + 1)[1:]
    losses = 1 + (factor * share) ** -world.exponent + world.seed * generator.standard_normal()
    losses -= world.decay * np.maximum(0, (share - 0.8) / 0.2)
    losses += world.moment * generator.standard_normal(world.evaluations)
    points = zip((STEPS * share).tolist(), losses.tolist(), strict=True)
    return CellResult("", seed, curve=[{"step": step, "loss": loss} for step, loss in points])


def print_worlds(pool: Executor, studies: int) -> None:
    """Prints a row for each world."""
    print(f"% of {studies} studies whose interval covers the true speedup, in brackets its 95 % interval")
    print("| world | true | mean found | covers | none found |")
    print("| --- | --- | --- | --- | --- |")
    for world in WORLDS:
        found = [each for each in pool.map(partial(study, world), range(studies), chunksize=100) if each]
        mean = np.exp(np.mean([log(ratio) for ratio, _ in found]))
        cells = (f"{world.speedup}", f"{mean:.3f}", share([covers for _, covers in found]))
        print(f"| {world.name} | {' | '.join(cells)} | {studies - len(found)} |", flush=True)


if __name__ == "__main__":
    main(__doc__, {"worlds": print_worlds}, 5000)
