"""`match: time`: measuring how fast arms train, and giving each as many updates as take the same time."""

import json
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from plugformer import train
from plugformer.configuration import dump
from plugformer.errors import ConfigurationError, RunError
from plugformer.hooks import Update, hookimpl, must_not_fail
from plugformer.runs import read_json, write_json, write_text
from plugformer_ablation.arms import Arm, written
from plugformer_ablation.cells import identity, ingredients
from plugformer_ablation.executors import hidden_script
from plugformer_ablation.training import discover

WARM_UP, COUNTED = 5, 20
"""Numbers of updates; the first ones allocate memory and do not count."""


def with_equal_time(arms: Sequence[Arm], out: Path, threads: int, notify: Callable[[str], None]) -> list[Arm]:
    """Returns arms whose numbers of updates take as long as those of the baseline, the first.

    Measurements are kept in `speeds.json`, so that a study that is resumed has the same numbers.

    Raises:
        ConfigurationError: The task counts epochs, not updates.
    """
    if arms[0].resolved.task.training.steps is None:
        raise ConfigurationError(
            "`match: time` changes the number of updates, and the task has none\n"
            "  add `training.steps: NUMBER` to `set`"
        )
    computations: dict[str, Arm] = {}
    for arm in arms:
        computations.setdefault(_computation(arm), arm)
    keys = {
        name: identity({**ingredients(arm.resolved, arm.hashes), "threads": threads})
        for name, arm in computations.items()
    }
    file, seconds = out / "speeds.json", {}
    with suppress(RunError):  # not there yet, or damaged
        seconds = read_json(file)
    if not all(key in seconds for key in keys.values()):  # measured together, or not comparable
        notify(f"measuring the speed of {len(keys)} arms, one after the other")
        rounds = [
            {keys[name]: _measured(arm, threads) for name, arm in computations.items()} for _ in range(2)
        ]
        seconds = {key: min(times[key] for times in rounds) for key in keys.values()}
        write_json(file, seconds)
    baseline = seconds[keys[_computation(arms[0])]]
    return [_scaled(arm, baseline / seconds[keys[_computation(arm)]]) for arm in arms]


def _computation(arm: Arm) -> str:
    """Returns a key for what an update computes: all settings but the learning rate and its schedule."""
    task: dict[str, Any] = written(arm.resolved.task)
    training = {key: value for key, value in task["training"].items() if key != "schedule"}
    training["optimizer"] = arm.resolved.task.training.optimizer.name
    return json.dumps([arm.name, {**task, "training": training}])


def _scaled(arm: Arm, factor: float) -> Arm:
    training = arm.resolved.task.training
    steps, every = training.steps or 0, training.evaluate_every
    if factor == 1:
        return arm
    update = {
        "steps": max(1, round(steps * factor)),
        "evaluate_every": None if every is None else max(1, round(every * factor)),
    }
    task = arm.resolved.task.model_copy(update={"training": training.model_copy(update=update)})
    note = f"{update['steps']} updates for {steps}, by measured speed: not bit-reproducible elsewhere"
    return arm.with_task(task, note)


def _measured(arm: Arm, threads: int) -> float:
    """Returns the seconds of an update, measured in a new process."""
    with TemporaryDirectory(prefix="plugformer-") as folder:
        file = Path(folder, "task.yaml")
        write_text(file, dump(arm.resolved.task.model_copy(update={"registry": None})))
        with hidden_script(), ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            return pool.submit(seconds_per_update, file, arm.resolved.registry.local, threads).result()


def seconds_per_update(file: Path, manifests: Sequence[Path], threads: int) -> float:
    """Trains a task for a few updates, without evaluations; returns the median of their seconds."""
    torch.set_num_threads(threads)
    watch, more = _Stopwatch(), WARM_UP + COUNTED + 1
    settings = [f"training.{name}={more}" for name in ("steps", "evaluate_every", "log_every")]
    with suppress(_EnoughError):
        train(
            str(file),
            overrides=[*settings, "evaluation.samples=0", "evaluation.limit=1"],
            out=file.parent / "run",
            registry=discover(manifests),
            observers=[watch],
            notify=lambda _: None,
        )
    return statistics.median(watch.seconds[WARM_UP:] or watch.seconds)


class _EnoughError(Exception):
    """All updates have been measured."""


class _Stopwatch:
    def __init__(self) -> None:
        self.seconds: list[float] = []

    @hookimpl
    @must_not_fail
    def step_ended(self, update: Update) -> None:
        self.seconds.append(update.seconds)
        if len(self.seconds) == WARM_UP + COUNTED:
            raise _EnoughError
