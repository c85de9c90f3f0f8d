"""How fast the same model trains in Plugformer and in its peers, side by side.

    PLUGFORMER_DATA=... python benchmarks/training.py --rounds 5 --json training.json

The sentence pairs are Multi30k's. Every system takes shuffled batches of 64 of the same pairs, which no
training of Plugformer makes. Its trainings make those "by tokens", as many pairs as a budget allows that
gives as many target tokens per update, and those "by size", 64 pairs of about a length. Marian also takes
those that the trainer of transformers groups by length. All are padded to the longest sequences of a batch,
as on a CPU Plugformer does, and transformers' DataCollatorForSeq2Seq. Every round runs each system for some
updates in turn, so that what else the machine does falls on all alike, and measures the rate of plain
matrix products; the share of it counts the products that a model really makes. Memory is that of a process
which trains one system alone. How figures grow with length and width: growth.py.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from operator import truediv
from pathlib import Path

import numpy as np
import torch
from machine import matrix_rate, peak_memory
from peers import LONGEST, VOCABULARY, WIDTH, Ids, System
from systems import SYSTEMS
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from plugformer.data import Ladder
from plugformer.data.encoding import ONE, Lengths
from plugformer.interfaces import PADDING, Ragged
from plugformer.registry import Registry
from plugformer_blocks import pad, read_lines

BATCH = 64
REFERENCE = "Marian"

Batches = list[list[int]]  # the numbers of the pairs of each


@dataclass(frozen=True)
class Pairs:
    """Sentence pairs as token numbers."""

    source: list[list[int]]
    target: list[list[int]]

    def batch(self, rows: list[int]) -> tuple[Ids, Ids]:
        """Returns some pairs, padded; sources end with END, targets begin with BEGIN too."""
        source = pad(Ragged.of([self.source[row] for row in rows]))
        target = pad(Ragged.of([self.target[row] for row in rows]), begin=True)
        return source.ids, target.ids

    @property
    def lengths(self) -> Lengths:
        """The lengths of sources and targets with special tokens."""
        rows = [[len(one) + 1, len(other) + 2] for one, other in zip(self.source, self.target, strict=True)]
        return np.array(rows)

    def shuffled(self) -> Batches:
        """Returns batches of 64."""
        return _cut(np.random.default_rng([1, 0]).permutation(len(self.source)).tolist())

    def by_tokens(self) -> Batches:
        """Returns those of a training's `batch_tokens`, on average with as many target tokens as 64 pairs."""
        lengths = self.lengths
        targets = int(np.sum(lengths[:, 1] - 1))
        wanted = BATCH * targets / len(lengths)
        tokens = int(2.1 * wanted)
        for _ in range(20):  # the budget counts padding and both sides
            batches = _planned(lengths, tokens=tokens)
            found = targets / len(batches)
            if abs(found / wanted - 1) < 0.01:
                break
            tokens = int(tokens * wanted / found)
        return batches

    def by_size(self) -> Batches:
        """Returns those of a training's `batch_size`."""
        return _planned(self.lengths, tokens=1, size=BATCH)

    def grouped(self) -> Batches:
        """Returns those of transformers' `train_sampling_strategy="group_by_length"`, in a random order.

        Its own order begins with long ones.
        """
        from transformers.trainer_pt_utils import get_length_grouped_indices

        lengths = self.lengths[:, 0].tolist()
        batches = _cut(get_length_grouped_indices(lengths, BATCH, generator=torch.Generator().manual_seed(1)))
        return [batches[number] for number in np.random.default_rng(1).permutation(len(batches))]


def _cut(rows: list[int]) -> Batches:
    return [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)][:-1]


def _planned(lengths: Lengths, *, tokens: int, size: int | None = None) -> Batches:
    planned = Ladder(lengths, tokens=tokens, size=size).batches(lengths, ONE, 1, 0)
    return [batch.rows for batch in planned]


ARRANGED = {
    "by tokens": (Pairs.by_tokens, {"plugformer", "the same by hand"}),
    "by size": (Pairs.by_size, {"plugformer"}),
    "grouped by length": (Pairs.grouped, {REFERENCE}),
}
"""Other batches than shuffled ones, and who takes them."""


def batches_of(name: str, pairs: Pairs) -> Batches:
    """Returns the batches of a row of the table."""
    _, _, arrangement = name.partition(", ")
    return ARRANGED[arrangement][0](pairs) if arrangement else pairs.shuffled()


def system_of(name: str) -> System:
    """Returns the system of a row of the table."""
    return SYSTEMS[name.partition(", ")[0]]


def multi30k() -> Pairs:
    """Returns the training pairs of Multi30k, in a joint byte-level BPE of 8,000 tokens."""
    folder = Path(os.environ["PLUGFORMER_DATA"], "multi30k")
    texts = [list(read_lines(folder / f"train.{language}")) for language in ("en", "de")]
    tokenizer = Registry.discover().create("tokenizer", "bpe", size=VOCABULARY, lowercase=True)
    tokenizer.train([*texts[0], *texts[1]])
    source, target = ([row[: LONGEST - 2] for row in tokenizer.encode(side)] for side in texts)
    return Pairs(source, target)


class Trainee:
    """A system in training: its model, optimizer and endless batches."""

    def __init__(self, system: System, pairs: Pairs, batches: Batches) -> None:
        torch.manual_seed(1)
        self.system = system
        self.model: nn.Module = system.build()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=3e-4, betas=(0.9, 0.98), fused=True)
        self._batches = self._endless(pairs, batches)

    def rate(self, updates: int) -> float:
        """Makes some updates; returns target tokens per second."""
        batches = [next(self._batches) for _ in range(updates)]
        targets = sum(int((target[:, 1:] != PADDING).sum()) for _, target in batches)
        started = time.perf_counter()
        for source, target in batches:
            self.optimizer.zero_grad()
            self.system.loss(self.model, source, target).backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
        return targets / (time.perf_counter() - started)

    @staticmethod
    def _endless(pairs: Pairs, batches: Batches) -> Iterator[tuple[Ids, Ids]]:
        while True:
            for rows in batches:
                yield pairs.batch(rows)


def products(system: System, pairs: Pairs, batches: Batches) -> float:
    """Returns the GFLOP that a system's matrix products take for one target token."""
    model = system.build()
    targets = 0
    with FlopCounterMode(display=False) as counter:
        for rows in batches[:4]:
            source, target = pairs.batch(rows)
            system.loss(model, source, target).backward()
            targets += int((target[:, 1:] != PADDING).sum())
    return counter.get_total_flops() / targets / 1e9


def measured(pairs: Pairs, names: list[str], rounds: int, updates: int) -> dict[str, dict[str, float]]:
    """Returns the figures of each system, medians over the rounds."""
    arranged = [
        f"{name}, {kind}" for kind, (_, takers) in ARRANGED.items() for name in names if name in takers
    ]
    batches = {name: batches_of(name, pairs) for name in [*names, *arranged]}
    trainees = {name: Trainee(system_of(name), pairs, batches[name]) for name in batches}
    for trainee in trainees.values():
        trainee.rate(3)
    rates: dict[str, list[float]] = {name: [] for name in trainees}
    machine = []
    for number in range(rounds):
        machine.append(matrix_rate(WIDTH))
        for name, trainee in trainees.items():
            rates[name].append(trainee.rate(updates))
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    work = {name: products(system_of(name), pairs, batches[name]) for name in batches}
    return {
        name: {
            "tokens_per_second": statistics.median(values),
            "ratio": statistics.median(map(truediv, values, rates[REFERENCE])),
            "gflop_per_target": work[name],
            "share_of_matrix_rate": statistics.median(map(truediv, values, machine)) * work[name],
            "matrix_gflops": statistics.median(machine),
        }
        for name, values in rates.items()
    }


def memory(name: str, pairs: Pairs) -> float:
    """Returns the peak memory in MB of a process that makes a few updates with one system.

    What the process has before it builds the model is taken off: the libraries and the pairs.
    """
    command = [sys.executable, __file__, "--memory-of", name]
    given = json.dumps([pairs.source, pairs.target])
    done = subprocess.run(command, input=given, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def _print_memory(name: str) -> None:
    pairs = Pairs(*json.load(sys.stdin))
    base = peak_memory()
    Trainee(system_of(name), pairs, batches_of(name, pairs)).rate(10)
    print(peak_memory() - base)


def main() -> None:
    """Measures and prints one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=8)
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=list(SYSTEMS))
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory_of:
        _print_memory(arguments.memory_of)
        return
    pairs = multi30k()
    if REFERENCE not in arguments.systems:
        parser.error(f"--systems needs {REFERENCE}: all others are compared with it")
    table = measured(pairs, arguments.systems, arguments.rounds, arguments.updates)
    for name, row in table.items():
        row["memory_mb"] = memory(name, pairs)
    print(
        f"{'system':30}  target tokens/s  x {REFERENCE}  GFLOP a target  share of matrix rate  peak memory MB"
    )
    for name, row in table.items():
        print(
            f"{name:30}  {row['tokens_per_second']:15.0f}  {row['ratio']:8.2f}  "
            f"{row['gflop_per_target']:14.4f}  {row['share_of_matrix_rate']:20.0%}  {row['memory_mb']:14.0f}"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
