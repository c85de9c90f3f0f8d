"""Losses, gradients and parameters that are not finite: skip the update, or end the run."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple, NoReturn, TypeVar

import torch
from torch import Tensor

from plugformer.distributed import SINGLE_PROCESS, Processes
from plugformer.errors import NotFiniteError
from plugformer.generators import restore_generators
from plugformer.hooks.specification import Run
from plugformer.interfaces.batch import Batch
from plugformer.runs.checkpoint import TrainingState
from plugformer.runs.directory import RunDirectory
from plugformer.training.strategy import Objective, TrainingStrategy

T = TypeVar("T")

MOST_IN_A_ROW = 10
"""After so many skipped updates in a row the run ends: the model is broken, not a batch."""

_REMEDIES = "a lower learning rate, a longer warm-up, training.gradient_clipping, correcting a component"


class PendingUpdate(NamedTuple):
    """An update whose losses and gradient norm are still on the device."""

    step: int
    losses: Sequence[Tensor]  # of each batch of this process, summed over its targets
    norm: Tensor
    targets: int  # of all processes
    batches: Sequence[Batch]
    generators: Mapping[str, Tensor]  # states before the update


@dataclass(frozen=True)
class NotFiniteGuard:
    """Checks updates, and parameters before they are saved.

    Reading a number waits for the device and for other processes. Therefore a GPU checks the pending updates
    together: before a log line, an evaluation and a checkpoint, so that no checkpoint has broken parameters.
    """

    run: Run
    state: TrainingState
    strategy: TrainingStrategy
    objective: Objective | None = None
    processes: Processes = SINGLE_PROCESS
    pending: list[PendingUpdate] = field(default_factory=list)

    @property
    def every_update(self) -> bool:
        """Whether every update is checked: it costs nothing, or the task skips updates."""
        return self.skips or (self.strategy.device.type == "cpu" and self.processes.count == 1)

    @property
    def skips(self) -> bool:
        """Whether the task skips updates that are not finite."""
        return self.run.task.training.on_nonfinite == "skip"

    def settle(self) -> tuple[float, bool]:
        """Returns the mean loss over the targets of pending updates, and whether the last one can be made.

        Raises:
            NotFiniteError: An update is not finite, and it cannot be skipped.
        """
        pending = [*self.pending]
        self.pending.clear()
        losses = [loss for update in pending for loss in update.losses]
        numbers = torch.stack([*(update.norm for update in pending), *losses]).tolist()  # waits once
        norms, values = numbers[: len(pending)], iter(numbers[len(pending) :])
        sums = self.processes.total([sum(islice(values, len(update.losses))) for update in pending]).tolist()
        for update, total, norm in zip(pending, sums, norms, strict=True):
            if not (math.isfinite(total) and math.isfinite(norm)):
                self._refuse(update, loss := total / max(1, update.targets), norm)
                return loss, False
        self.state.progress.skipped_in_a_row = 0
        return sum(sums) / max(1, sum(update.targets for update in pending)), True

    def _refuse(self, update: PendingUpdate, loss: float, norm: float) -> None:
        """Counts an update that is skipped, or ends the run."""
        progress = self.state.progress
        progress.skipped += 1
        progress.skipped_in_a_row += 1
        problem = f"Update {update.step}: the loss is {loss:.4g}, the gradient norm {norm:.4g}."
        if self.skips:
            restore_generators(update.generators, self.state.device)
            if progress.skipped_in_a_row < MOST_IN_A_ROW:
                return
            problem += f" {progress.skipped_in_a_row} updates in a row had to be skipped."
        from plugformer.training.explaining import explained

        plain = [replace(batch, asked=Batch.asked) for batch in update.batches]  # without the split
        batches = [batch for share in self.processes.gather(plain) for batch in share]
        with self.strategy.full_model() as model, self.strategy.computing():
            cause = self.processes.on_main(lambda: explained(model, batches, self.objective))
        self._end(problem, cause)

    def check_parameters(self) -> None:
        """Raises NotFiniteError if a parameter is not finite, so that no checkpoint holds it."""
        finite = [parameter.isfinite().all() for parameter in self.state.model.parameters()]
        if not torch.stack(finite).all():
            self._end(f"Update {self.state.progress.step} left non-finite parameters.")

    def evaluated(self, evaluate: Callable[[], T]) -> T:
        """Returns the result of an evaluation of the full model; NotFiniteError if a number is not finite."""
        with self.strategy.full_model():
            self.check_parameters()
            try:
                return evaluate()
            except NotFiniteError as error:
                self._end(str(error))

    def _end(self, problem: str, cause: str = "") -> NoReturn:
        directory = RunDirectory(self.run.directory)
        last = "No checkpoint has been saved yet."
        if saved := sorted(directory.checkpoints.glob("step-*")):
            resume = f"`plugformer train --resume --out {directory.path}{self.run.arguments}`"
            last = f"The last good checkpoint is {saved[-1]}; resume with {resume}."
        lines = filter(None, [problem, cause, f"Usual remedies: {_REMEDIES}.", last])
        self.processes.abort(NotFiniteError("\n  ".join(lines)))
