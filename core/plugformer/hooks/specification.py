"""The hooks, in the order of a run's life. A plugin implements any of them, with any of their arguments."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pluggy

from plugformer.configuration.task import Task
from plugformer.interfaces.model import Model

hookspec = pluggy.HookspecMarker("plugformer")
hookimpl = pluggy.HookimplMarker("plugformer")

F = TypeVar("F", bound=Callable[..., Any])


def must_not_fail(implementation: F) -> F:
    """Marks a hook implementation without which a run is pointless: its error stops the run."""
    implementation.plugformer_must_not_fail = True  # type: ignore[attr-defined]  # pluggy keeps the function
    return implementation


@dataclass(frozen=True)
class Run:
    """A run in progress.

    Attributes:
        directory: Where it is saved.
        task: What is trained, fully resolved.
        model: The model; observers look, they do not touch. With `training.shard`, parameters
            are those of the last evaluation, checkpoint or logged update.
        steps: Updates in the whole training.
        epoch_steps: Updates in an epoch.
    """

    directory: Path
    task: Task
    model: Model
    steps: int
    epoch_steps: int


@dataclass(frozen=True)
class Update:
    """One update of the parameters.

    Attributes:
        step: Its number, counted from 1.
        epoch: The epoch it belongs to, counted from 1.
        loss: Mean training loss over the update's targets, in nats; of one that is left out, it may be any.
        targets: Number of targets.
        tokens: Real source and target tokens read.
        token_accuracy: Share of the last batch's targets that are the most probable output, measured every
            `training.log_every` updates; None in between. Several processes take the last batch of each.
        learning_rate: The optimizer's rate in this update.
        seconds: Wall time of the update.
        left_out: Whether the parameters stayed as they were, because loss or gradients are not finite.
        skipped: Updates left out so far, this one included.
    """

    step: int
    epoch: int
    loss: float
    targets: int
    tokens: int
    token_accuracy: float | None
    learning_rate: float
    seconds: float
    left_out: bool = False
    skipped: int = 0


@dataclass(frozen=True)
class Sample:
    """An example of the validation split and what the model makes of it."""

    source: str
    reference: str
    output: str


@dataclass(frozen=True)
class Evaluation:
    """An evaluation on the validation split.

    Attributes:
        step: Updates made so far.
        loss: Mean loss over all targets, in nats, without label smoothing.
        token_accuracy: Share of targets that are the most probable output, given the right ones before.
        metrics: Each metric's value on the decoded examples.
        samples: A few examples and outputs.
        best: Whether this is the best evaluation so far.
        seconds: Wall time of the evaluation.
        final: Whether training ends here, because all updates are made or evaluations have stopped improving.
    """

    step: int
    loss: float
    token_accuracy: float
    metrics: dict[str, float]
    samples: list[Sample]
    best: bool
    seconds: float
    final: bool = False


class Hooks:
    """What a plugin may implement."""

    @hookspec
    def run_started(self, run: Run) -> None:
        """Data are read and the model stands; training begins or is resumed."""

    @hookspec
    def samples_shown(self, run: Run, samples: list[Sample]) -> None:
        """The model has answered a few examples before its first update."""

    @hookspec
    def step_ended(self, run: Run, update: Update) -> None:
        """The parameters have been updated once, or the update is left out."""

    @hookspec
    def evaluation_ended(self, run: Run, evaluation: Evaluation) -> None:
        """The model has been evaluated on the validation split."""

    @hookspec
    def checkpoint_saved(self, run: Run, step: int, path: Path) -> None:
        """A checkpoint is safely on the disk."""

    @hookspec
    def average_evaluated(
        self, run: Run, steps: list[int], evaluation: Evaluation, single_best: float
    ) -> None:
        """All updates are made; the mean of the parameters after `steps` is saved and has been evaluated.

        It is called only where the task asks for an average. `evaluation.best` says whether the average beats
        `single_best`, the best value of the monitored figure at a single evaluation.
        """

    @hookspec
    def run_ended(self, run: Run) -> None:
        """All updates are made, the best parameters or the average saved; the final evaluation follows."""

    @hookspec
    def run_failed(self, run: Run, error: BaseException) -> None:
        """The run stops early: an error, or an interruption from outside."""
