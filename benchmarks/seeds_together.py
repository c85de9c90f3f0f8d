"""What it saves to train the seeds of an arm together, stacked into one model.

    python benchmarks/seeds_together.py

Five seeds of `dates`, each with its own batches, make an update each: one after the other in a process with
one thread; the same in two processes side by side, as the cells of a study run on two cores; together in one
model, with one thread and with two. Every round runs all in turn, so that what else the machine does falls on
all alike. Processor time is steadier than the clock, and two cores can at best halve it. Whether it is the
same: seeds_parity.py.
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from typing import NamedTuple

import torch
from stacked_seeds import Seed, StackedSeeds

from plugformer.configuration import resolve
from plugformer.data.preparation import prepare
from plugformer.interfaces import Batch
from plugformer.training.stream import ladder_of
from plugformer.validation import validate

SEEDS = (1, 2, 3, 4, 5)
BATCHES = 64
WORKERS = 2
TINY = ("model.width=32", "model.heads=2", "model.ffn_width=64")
SIZES = {
    "width 32, 16 pairs": (*TINY, "training.batch_size=16"),
    "width 32, 64 pairs": (*TINY, "training.batch_size=64"),
    "width 32, 2,048 tokens": TINY,
    "width 128, 16 pairs": ("training.batch_size=16",),
    "width 128, 64 pairs": ("training.batch_size=64",),
    "width 128, 2,048 tokens": (),
}


class Duration(NamedTuple):
    """What an update of all seeds takes, in ms.

    Attributes:
        clock: By the clock.
        processor: Of this process's processor time.
    """

    clock: float
    processor: float


class Arm:
    """The seeds of `dates` with some settings, once apart and once stacked, and their batches."""

    def __init__(self, settings: tuple[str, ...]) -> None:
        resolved = validate(resolve("dates", settings))
        data = prepare(resolved)
        train, training = data.splits["train"], resolved.task.training
        ladder = ladder_of(training, train)
        orders = [ladder.batches(train.lengths, train.counts, seed, 0) for seed in SEEDS]
        self._batches = [[train.batch(*order[number]) for order in orders] for number in range(BATCHES)]
        self._made = 0
        sizes = data.processor.sizes
        self._apart, again = (
            [Seed(resolved.task, seed, sizes, resolved.registry) for seed in SEEDS] for _ in range(2)
        )
        self._stacked = StackedSeeds(again)

    def one_by_one(self, updates: int) -> Duration:
        """Measures updates of one seed after the other."""
        return self._timed(self._update_apart, updates, threads=1)

    def together(self, updates: int, threads: int) -> Duration:
        """Measures updates of all seeds at once."""
        return self._timed(self._stacked.update, updates, threads)

    def _update_apart(self, batches: list[Batch]) -> None:
        for seed, batch in zip(self._apart, batches, strict=True):
            seed.update(batch)

    def _timed(self, update: Callable[[list[Batch]], object], updates: int, threads: int) -> Duration:
        torch.set_num_threads(threads)
        warnings.simplefilter("ignore")  # of kernels that vmap calls seed by seed
        clock, processor = time.perf_counter(), time.process_time()
        for number in range(updates):
            update(self._batches[number % BATCHES])
        spent = time.perf_counter() - clock, time.process_time() - processor
        return Duration(*(1000 * seconds / updates for seconds in spent))


@cache
def arm(settings: tuple[str, ...]) -> Arm:
    """Returns this process's arm with some settings."""
    return Arm(settings)


def train_one_by_one(settings: tuple[str, ...], updates: int) -> None:
    """Makes updates in a process of its own."""
    arm(settings).one_by_one(updates)


def side_by_side(pool: ProcessPoolExecutor, settings: tuple[str, ...], updates: int) -> float:
    """Returns what an update of all seeds takes by the clock, in ms, if every worker makes so many."""
    started = time.perf_counter()
    for each in [pool.submit(train_one_by_one, settings, updates) for _ in range(WORKERS)]:
        each.result({})
    return 1000 * (time.perf_counter() - started) / (WORKERS * updates)


def measured(settings: tuple[str, ...], rounds: int, updates: int) -> dict[str, list[float]]:
    """Returns the figures of every round; the first ones, with all that is made once, are left out."""
    figures: dict[str, list[float]] = {}
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        for number in range(rounds + 1):
            single, both = (arm(settings).together(updates, threads) for threads in (1, WORKERS))
            one_by_one = arm(settings).one_by_one(updates)
            beside = side_by_side(pool, settings, updates)
            row = {
                "one by one": one_by_one.processor,
                "together": single.processor,
                "ratio": one_by_one.processor / single.processor,
                "side by side": beside,
                "together, 2 threads": both.clock,
                "ratio by the clock": beside / both.clock,
            }
            for name, value in row.items() if number else ():
                figures.setdefault(name, []).append(value)
    arm.cache_clear()
    return figures


def main() -> None:
    """Measures and prints one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--updates", type=int, default=8)
    arguments = parser.parse_args()
    print("ms for an update of five seeds, medians: processor time of one thread, then by the clock")
    for size, settings in SIZES.items():
        figures = measured(settings, arguments.rounds, arguments.updates)
        cells = [f"{name} {statistics.median(values):.2f}" for name, values in figures.items()]
        print(" | ".join([f"{size:24}", *cells]), flush=True)


if __name__ == "__main__":
    main()
