"""The time of updates: in `plugformer.train`, by a callback, and in the training loop of a peer."""

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import plugformer
from plugformer.hooks import Update, hookimpl, must_not_fail

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LEARNING_RATE = 1e-4


def now() -> float:
    """Returns the time in seconds when the GPU has nothing left to do."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


class Measured(Exception):  # noqa: N818 (it is no error)
    """All rounds are over."""


class Stopwatch:
    """Takes the time of updates, and ends a training by raising `Measured`.

    Args:
        warm_up: Updates before the first round.
        updates: Updates of a round.
        rounds: Rounds, between two waits for the GPU each.

    Attributes:
        first: Seconds of the first update.
    """

    def __init__(self, *, warm_up: int, updates: int, rounds: int) -> None:
        self.first = 0.0
        self._warm_up, self._updates, self._rounds = warm_up, updates, rounds
        self._begin = 0.0
        self._marks: list[float] = []

    @property
    def seconds(self) -> float:
        """Seconds of an update, the median of the rounds."""
        rounds = [end - begin for begin, end in zip(self._marks, self._marks[1:], strict=False)]
        return statistics.median(rounds) / self._updates

    @hookimpl
    @must_not_fail
    def run_started(self) -> None:
        """The model is on its device, and updates begin."""
        self._begin = now()

    @hookimpl
    @must_not_fail
    def step_ended(self, update: Update) -> None:
        """`plugformer.train` has made an update."""
        self.count(update.step)

    def count(self, step: int) -> None:
        """Counts an update; the first one and the last of each round are waited for."""
        if step == 1:
            self.first = now() - self._begin
        after = step - self._warm_up
        if after >= 0 and after % self._updates == 0:
            self._marks.append(now())
        if len(self._marks) > self._rounds:
            raise Measured


def train_ours(task: dict[str, Any], data: dict[str, Any], watch: Stopwatch) -> None:
    """Trains by `plugformer.train`."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "run")
        plugformer.train(task, data=data, out=out, device=DEVICE, callbacks=[watch], notify=str)


def train_peer(
    build: Callable[[], nn.Module],
    loss: Callable[..., Tensor],
    batches: Sequence[tuple[Tensor, ...]],
    watch: Stopwatch,
) -> None:
    """Trains a peer on batches that are on its device."""
    model = build().to(DEVICE).train()
    optimizer = plugformer.create("optimizer", "adamw", lr=LEARNING_RATE).build(model.named_parameters())
    watch.run_started()
    for step in count(1):
        with torch.autocast(DEVICE, torch.bfloat16):
            mean = loss(model, *batches[step % len(batches)])
        mean.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        watch.count(step)
