"""What an update costs: arms make a few updates in turn, so that a busy machine is busy for all of them."""

import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from math import isfinite, nan
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np
import torch

from plugformer import train
from plugformer.errors import PlugformerError, RunError, described
from plugformer.hooks import Update, hookimpl, must_not_fail
from plugformer.registry import Registry
from plugformer_ablation.design.arms import Arm, written
from plugformer_ablation.judging.results import Record, read_if_there, write
from plugformer_ablation.judging.statistics import RESAMPLES
from plugformer_ablation.running.cells import identity, ingredients
from plugformer_ablation.running.executors import start_process, visible_gpus

ROUNDS = 20
"""In each one, every arm runs a block."""

BLOCK = 5
"""Updates of a block. The first block of an arm loads data and allocates memory, and does not count."""

TOGETHER = 4
"""Arms that are alive at a time, the baseline among them; each is a process with a model."""

Item = TypeVar("Item")


def rotated(items: Sequence[Item], number: int) -> list[Item]:
    """Returns the items in a round's order: each round begins with the next one."""
    start = number % len(items)
    return [*items[start:], *items[:start]]


def in_turn(names: Sequence[str], run: Callable[[str], float]) -> dict[str, list[float]]:
    """Returns the seconds of each arm's blocks, one for each round after the first."""
    blocks: dict[str, list[float]] = {name: [] for name in names}
    for number in range(1 + ROUNDS):
        for name in rotated(names, number):
            blocks[name].append(run(name))
    return {name: seconds[1:] for name, seconds in blocks.items()}


def relative_cost(blocks: Sequence[float], baseline: Sequence[float]) -> Record:
    """Returns the cost of an arm's updates relative to the baseline's, from blocks of the same rounds.

    `ratio` is the median over rounds of the ratio of both times, `low` and `high` are the ends of its 95 %
    interval (a percentile bootstrap over rounds), and `verdict` says whether the interval excludes 1.
    """
    rounds = np.array(blocks) / np.array(baseline)
    resampled = np.random.default_rng(0).choice(rounds, (RESAMPLES, len(rounds)))
    low, high = map(float, np.quantile(np.median(resampled, axis=1), [0.025, 0.975]))
    return {
        "ratio": float(np.median(rounds)),
        "low": low,
        "high": high,
        "verdict": "slower" if low > 1 else "faster" if high < 1 else "not distinguishable",
    }


def with_costs(arms: Sequence[Arm], out: Path, threads: int, notify: Callable[[str], None]) -> list[Arm]:
    """Returns arms with their `cost` relative to the first; it stays None if a training of either fails.

    Arms that compute the same are measured once. The costs are kept in `costs.json`, so that a study that is
    resumed has the same ones; a new arm is measured together with all others.
    """
    usual = [arm.usual for arm in arms]
    common = {"baseline": computation(usual[0])}  # and not the threads: other workers may have more of them
    keys = [
        identity({**ingredients(arm.resolved, arm.hashes), "task": computation(arm), **common}, out)
        for arm in usual
    ]
    alike = dict(zip(keys, usual, strict=True))
    first, *others = alike
    file = out / "costs.json"
    costs = read_if_there(file)
    if not all(key in costs for key in keys):
        work = f"{len(alike)} arms make {BLOCK} updates in turn, {ROUNDS} times"
        notify(f"measuring costs on this machine, {platform.node()}: {work}")
        for group, gpu in _groups(others):
            names = [first, *group]
            with _started({key: alike[key] for key in names}, threads, gpu, notify) as run:
                blocks = in_turn(names, run)
            costs |= {key: relative_cost(blocks[key], blocks[first]) for key in names}
        costs = {key: cost for key, cost in costs.items() if isfinite(cost["ratio"])}
        write(file, json.dumps(costs))
    return [replace(arm, cost=costs.get(key)) for arm, key in zip(arms, keys, strict=True)]


def _groups(others: Sequence[str]) -> Iterator[tuple[Sequence[str], str | None]]:
    """Yields arms that are measured together, next to the baseline, and the GPU on which they are.

    Groups are spread over the GPUs. An arm and its baseline are on the same one: GPUs of one model differ by
    8 % on average (Sinha et al., 2022, https://arxiv.org/abs/2208.11035).
    """
    gpus: Sequence[str | None] = visible_gpus() or [None]
    size = max(1, min(TOGETHER - 1, -(-len(others) // len(gpus))))  # rounded up
    for number, start in enumerate(range(0, max(len(others), 1), size)):
        yield others[start : start + size], gpus[number % len(gpus)]


def with_equal_time(arms: Sequence[Arm], out: Path, threads: int, notify: Callable[[str], None]) -> list[Arm]:
    """Returns arms whose numbers of updates take as long as those of the baseline, the first.

    Raises:
        RunError: What an arm costs cannot be measured.
    """
    measured = with_costs(arms, out, threads, notify)
    if missing := [arm.name for arm in measured if arm.cost is None]:
        raise RunError(f"`match: time` needs the cost of {missing[0]}, which cannot be measured")
    return [replace(_scaled(arm), cost=None) for arm in measured]  # a baseline may be another one when tuned


def computation(arm: Arm) -> Record:
    """Returns what an update computes: all settings but the duration, and rates of the optimizer."""
    task: Record = written(arm.resolved.task)
    ignored = ("schedule", "steps", "epochs", "evaluate_every")
    training = {key: value for key, value in task["training"].items() if key not in ignored}
    optimizer = arm.resolved.task.training.optimizer
    kept = {key: value for key, value in optimizer.options.items() if not isinstance(value, int | float)}
    return {**task, "training": {**training, "optimizer": {"name": optimizer.name, **kept}}}


def _scaled(arm: Arm) -> Arm:
    usual, ratio = arm.resolved.task.training.steps or 0, (arm.cost or {})["ratio"]
    steps = max(1, round(usual / ratio))
    speed = "by the speed of the machine that started the study: not bit-reproducible elsewhere"
    return arm if ratio == 1 else arm.with_steps(steps, f"{steps} updates for {usual}, {speed}")


@contextmanager
def _started(
    arms: Mapping[str, Arm], threads: int, gpu: str | None, notify: Callable[[str], None]
) -> Iterator[Callable[[str], float]]:
    """Starts a process for each arm's training, and yields what runs a block; NaN if the training failed."""
    connections: dict[str, Connection] = {}

    def run(name: str) -> float:
        try:
            connections[name].send(None)
            answer: float | str = connections[name].recv()
        except (EOFError, ConnectionError):
            return nan
        if not isinstance(answer, str):
            return answer
        notify(f"the cost of {arms[name].name} cannot be measured: {answer}")
        return nan

    with TemporaryDirectory(prefix="plugformer-") as folder, ExitStack() as ending:
        for name, arm in arms.items():
            task, manifests = written(arm.resolved.task), arm.resolved.registry.local
            arguments = (task, Path(folder, name), manifests, threads)
            process, connections[name] = start_process(train_in_turn, gpu, *arguments)
            ending.callback(process.join)
            ending.callback(process.kill)  # before it is joined
        yield run


def train_in_turn(
    task: dict[str, Any], out: Path, manifests: Sequence[Path], threads: int, turns: Connection
) -> None:
    """Trains a task, a block for each message, which it answers with seconds, or words on what failed."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    torch.set_num_threads(threads)
    more = BLOCK * (ROUNDS + 2)
    settings = [f"training.{name}={more}" for name in ("steps", "evaluate_every", "log_every")]
    try:
        train(
            task,
            overrides=[*settings, "evaluation.samples=0", "evaluation.limit=1"],
            out=out,
            registry=Registry.discover(*manifests),
            callbacks=[_Turns(turns)],
            notify=lambda _: None,
        )
    except Exception as error:
        turns.send(str(error) if isinstance(error, PlugformerError) else described(error))


def now() -> float:
    """Returns the time in seconds, when all that was computed before has ended."""
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()
    return time.perf_counter()


class _Turns:
    """Waits before each block until it is this process's turn."""

    def __init__(self, turns: Connection) -> None:
        self._turns = turns
        self._wait()

    def _wait(self) -> None:
        self._turns.recv()
        self._started = now()

    @hookimpl
    @must_not_fail
    def step_ended(self, update: Update) -> None:
        if update.step % BLOCK == 0:
            self._turns.send(now() - self._started)
            self._wait()
