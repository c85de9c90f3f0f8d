"""Measuring how fast arms train, for studies that give each the same time; no such figure is exact."""

import json
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import torch
from pydantic import Field, FiniteFloat, TypeAdapter

from plugformer import train
from plugformer.configuration import Task, dump
from plugformer.errors import ConfigurationError, RunError
from plugformer.hooks import Update, hookimpl, must_not_fail
from plugformer.runs import read_json, write_json, write_text
from plugformer_ablation.arms import Arm
from plugformer_ablation.cells import identity, ingredients
from plugformer_ablation.training import discover

WARM_UP = 5
"""Updates that are not counted: the first ones allocate memory."""

COUNTED = 20
ROUNDS = 2
"""Of all arms in turn, so that a slow moment of the machine does not fall on one alone; the faster counts."""


def with_equal_time(arms: Sequence[Arm], out: Path, threads: int, notify: Callable[[str], None]) -> list[Arm]:
    """Returns arms whose numbers of updates take as long as those of the baseline, the first.

    What was measured is kept in `speeds.json`, so that a study that goes on has the same numbers.

    Args:
        arms: With `training.steps`.
        out: The study's folder.
        threads: As many as each cell will have.
        notify: Receives what is being done.

    Raises:
        ConfigurationError: The task counts epochs, not updates.
    """
    if arms[0].resolved.task.training.steps is None:
        raise ConfigurationError(
            "`match: time` changes the number of updates, and the task has none\n"
            "  add `training.steps: NUMBER` to `set`"
        )
    firsts: dict[str, Arm] = {}
    for arm in arms:
        firsts.setdefault(_computation(arm), arm)
    seconds = _speeds([*firsts.values()], out / "speeds.json", threads, notify)
    speeds = dict(zip(firsts, seconds, strict=True))
    return [_scaled(arm, seconds[0] / speeds[_computation(arm)]) for arm in arms]


def _computation(arm: Arm) -> str:
    """Returns a name for what an update of an arm computes.

    The learning rates and schedules that tuning tries change its numbers alone: an arm has as many updates
    with each of them, and the baseline as many as the task says.
    """
    costly = {path: value for path, value in arm.tuned.items() if not _costs_nothing(path, value)}
    return json.dumps([arm.name, costly])


def _costs_nothing(path: str, value: object) -> bool:
    is_number = path.startswith("training.optimizer.") and isinstance(value, float)
    return is_number or path.startswith("training.schedule")


def _scaled(arm: Arm, factor: float) -> Arm:
    training = arm.resolved.task.training
    steps, every = training.steps or 0, training.evaluate_every
    if factor == 1:
        return arm
    changed = training.model_copy(
        update={
            "steps": max(1, round(steps * factor)),
            "evaluate_every": None if every is None else max(1, round(every * factor)),
        }
    )
    task = arm.resolved.task.model_copy(update={"training": changed})
    note = f"{changed.steps} updates for {steps}, by measured speed: not bit-reproducible elsewhere"
    return arm.with_task(task, note)


def _speeds(arms: Sequence[Arm], file: Path, threads: int, notify: Callable[[str], None]) -> list[float]:
    """Returns the seconds of an update of each arm."""
    keys = [identity({**ingredients(arm.resolved, arm.hashes), "threads": threads}) for arm in arms]
    known = _known(file)
    if not all(key in known for key in keys):  # together, or not comparable
        notify(f"measuring the speed of {len(arms)} arms, one after the other")
        rounds = [[_measured(arm, threads) for arm in arms] for _ in range(ROUNDS)]
        known = dict(zip(keys, map(min, *rounds), strict=True))
        write_json(file, known)
    return [known[key] for key in keys]


def _known(file: Path) -> dict[str, float]:
    """Returns earlier measurements; none if they cannot be read, since they can be repeated."""
    try:
        found: dict[str, float] = read_json(file, TypeAdapter(dict[str, Annotated[FiniteFloat, Field(gt=0)]]))
    except RunError:
        return {}
    return found


def _measured(arm: Arm, threads: int) -> float:
    with TemporaryDirectory(prefix="plugformer-") as folder:
        file = Path(folder, "task.yaml")
        write_text(file, dump(_short(arm.resolved.task)))
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            manifests = arm.resolved.registry.local
            return pool.submit(seconds_per_update, file, manifests, threads).result()


def _short(task: Task) -> Task:
    """Returns a task without what takes time beside updates."""
    evaluation = task.evaluation.model_copy(update={"samples": 0, "limit": 1})
    more = WARM_UP + COUNTED + 1
    training = task.training.model_copy(update={"steps": more, "evaluate_every": more, "log_every": more})
    return task.model_copy(update={"registry": None, "evaluation": evaluation, "training": training})


def seconds_per_update(file: Path, manifests: Sequence[Path], threads: int) -> float:
    """Trains a task for a few updates; returns the median of their seconds. It is what a process does."""
    torch.set_num_threads(threads)
    watch = _Stopwatch()
    with suppress(_EnoughError):
        train(
            str(file),
            out=file.parent / "run",
            registry=discover(manifests),
            observers=[watch],
            notify=lambda _: None,
        )
    return statistics.median(watch.seconds[WARM_UP:] or watch.seconds)


class _EnoughError(Exception):
    """All updates that are to be measured are made."""


class _Stopwatch:
    def __init__(self) -> None:
        self.seconds: list[float] = []

    @hookimpl
    @must_not_fail
    def step_ended(self, update: Update) -> None:
        self.seconds.append(update.seconds)
        if len(self.seconds) == WARM_UP + COUNTED:
            raise _EnoughError
