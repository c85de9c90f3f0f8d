"""Hooks: the events of a run, which callbacks watch, and the places where callbacks change a training."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

import pluggy
import torch
from torch import Tensor

from plugformer.configuration.task import Task
from plugformer.interfaces import Batch, Loss, Model
from plugformer.registry import Registry

__all__ = [
    "HOOKS",
    "TRAINING_HOOKS",
    "EvaluationResult",
    "Hooks",
    "Run",
    "SampleOutput",
    "TrainingHooks",
    "Update",
    "hookimpl",
    "must_not_fail",
]

hookspec = pluggy.HookspecMarker("plugformer")
hookimpl = pluggy.HookimplMarker("plugformer")
"""Marks a method or function as the implementation of the hook of its name."""

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
        model: The model. With `training.shard`, parameters are those of the last evaluation, checkpoint or
            logged update.
        steps: Updates in the whole training.
        epoch_steps: Updates in an epoch.
        registry: The components that are installed or local, for a hook that loads another run:
            `plugformer.load(teacher, run.registry)`.
    """

    directory: Path
    task: Task
    model: Model
    steps: int
    epoch_steps: int
    registry: Registry = field(default_factory=Registry.built_in, repr=False)

    @property
    def resume_command(self) -> str:
        """The command that continues it; with rows in memory, which no command has, the call."""
        if self.task.data.name == "memory":
            return f"plugformer.resume({str(self.directory)!r}, data=...)"
        return f"plugformer train --resume --out {quote(str(self.directory))}{self.registry.arguments}"


@dataclass(frozen=True)
class Update:
    """One update of the parameters.

    Attributes:
        step: Its number, counted from 1.
        epoch: Number of its epoch, counted from 1.
        loss: Mean training loss in nats, over the targets of the updates since the last one that has a loss.
            On a GPU, and with several processes, only updates that are logged or evaluated have one.
        targets: Number of targets.
        tokens: Real source and target tokens read.
        token_accuracy: Share of the last batch's targets that are the most probable output, every
            `training.log_every` updates; None in between.
        learning_rate: The rate of the optimizer's first parameter group in this update.
        learning_rates: Those of groups with a name, such as `groups.0` of `training.optimizer`.
        seconds: Wall time of the update.
        left_out: Whether the parameters stayed as they were, because loss or gradients are not finite.
        skipped: Updates left out so far, this one included.
    """

    step: int
    epoch: int
    loss: float | None
    targets: int
    tokens: int
    token_accuracy: float | None
    learning_rate: float
    seconds: float
    left_out: bool = False
    skipped: int = 0
    learning_rates: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class SampleOutput:
    """An example of the validation split and the model's output."""

    source: str
    reference: str
    output: str


@dataclass(frozen=True)
class EvaluationResult:
    """An evaluation on the validation split.

    Attributes:
        step: Updates made so far.
        loss: Mean loss over all targets, as the head computes it in evaluation mode.
        token_accuracy: Share of targets that are the most probable output, given the right ones before; None
            if outputs are numbers.
        metrics: Each metric's value on the decoded examples.
        samples: A few examples and outputs.
        best: Whether this is the best evaluation so far.
        seconds: Wall time of the evaluation.
        final: Whether training ends here.
    """

    step: int
    loss: float
    token_accuracy: float | None
    metrics: dict[str, float]
    samples: list[SampleOutput]
    best: bool
    seconds: float
    final: bool = False


class Hooks:
    """The events of a run, which any callback may learn about."""

    @hookspec
    def run_started(self, run: Run) -> None:
        """Data are read and the model is built; training begins or is resumed."""

    @hookspec
    def samples_shown(self, run: Run, samples: list[SampleOutput]) -> None:
        """The model has answered a few examples before its first update."""

    @hookspec
    def step_ended(self, run: Run, update: Update) -> None:
        """The parameters have been updated once, or the update is left out."""

    @hookspec
    def evaluation_ended(self, run: Run, evaluation: EvaluationResult) -> None:
        """The model has been evaluated on the validation split."""

    @hookspec
    def checkpoint_saved(self, run: Run, step: int, path: Path) -> None:
        """A checkpoint is safely on the disk."""

    @hookspec
    def average_evaluated(
        self, run: Run, steps: list[int], evaluation: EvaluationResult, single_best: float
    ) -> None:
        """The average after `steps` is saved; `evaluation.best`: it beats `single_best`, a single one."""

    @hookspec
    def run_ended(self, run: Run) -> None:
        """All updates are made, the best parameters or the average saved; the final evaluation follows."""

    @hookspec
    def run_evaluated(self, run: Run) -> None:
        """The final evaluations are made, and are in `evaluation.json` of the run."""

    @hookspec
    def run_failed(self, run: Run, error: BaseException) -> None:
        """The run stops early: an error, or an interruption from outside."""


class TrainingHooks:
    """The hooks by which callbacks that a task names take part in a training.

    With `training.shard`, the parameters of `model` are this process's shards.
    """

    @hookspec
    def model_built(self, run: Run) -> None:
        """The model has its initial values; no optimizer knows its parameters yet, no checkpoint is read."""

    @hookspec(firstresult=True)
    def training_batch(self, run: Run, batch: Batch, step: int) -> Batch | None:
        """Returns a batch of update `step`, on the CPU; the targets of another one are counted again."""

    @hookspec(firstresult=True)
    def training_loss(self, run: Run, model: Model, batch: Batch, step: int) -> Loss | None:
        """Returns the loss of a batch of update `step`; the core returns `model.forward(batch)`.

        Call methods of the model, not the model itself.
        """

    @hookspec(firstresult=True)
    def optimizer_step(
        self, run: Run, model: Model, optimizer: torch.optim.Optimizer, step: int
    ) -> bool | None:
        """Changes the parameters by gradients that are clipped; the core lets the optimizer make its step."""

    @hookspec(firstresult=True)
    def evaluated_parameters(self, run: Run, model: Model) -> Mapping[str, Tensor] | None:
        """Returns values by parameter name that are evaluated and saved instead of the trained ones."""

    @hookspec
    def model_evaluated(self, run: Run, step: int, rank: tuple[bool, float, float]) -> None:
        """`run.model` has the evaluated parameters; the smaller `rank`, the better the evaluation."""

    @hookspec(firstresult=True)
    def averaged_parameters(self, run: Run) -> tuple[list[int], Mapping[str, Tensor]] | None:
        """Returns the steps of an average and its state, which is saved instead of the best parameters."""


HOOKS = [name for name in vars(Hooks) if not name.startswith("_")]
"""Names of the hooks that any callback may implement, in the order of a run's life."""

TRAINING_HOOKS = [name for name in vars(TrainingHooks) if not name.startswith("_")]
"""Names of the hooks by which callbacks of a task take part."""
