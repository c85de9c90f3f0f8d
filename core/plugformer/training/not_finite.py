"""Losses, gradients and parameters that are not finite: skip the update, or end the run and say where."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, NoReturn, TypeVar

import torch
from torch import Tensor, nn

from plugformer.distributed import SINGLE_PROCESS, Processes
from plugformer.errors import NotFiniteError
from plugformer.hooks import Run
from plugformer.interfaces import Batch, Model
from plugformer.runs.checkpoint import TrainingState
from plugformer.runs.directory import RunDirectory
from plugformer.training.strategy import Objective, TrainingStrategy

T = TypeVar("T")

MOST_IN_A_ROW = 10
"""After so many skipped updates in a row the run ends: the model is broken, not a batch."""

_LISTED = 8
_REMEDIES = "a lower learning rate, a longer warm-up, training.gradient_clipping, correcting a component"


class PendingUpdate(NamedTuple):
    """An update whose losses and gradient norm are still on the device."""

    step: int
    numbers: Tensor  # the norm; then the loss of each batch of this process, summed over its targets
    targets: int  # of all processes
    batches: Sequence[Batch]


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

    def check_pending(self) -> tuple[float, bool]:
        """Returns the mean loss over the targets of pending updates, and whether the last one is finite.

        Raises:
            NotFiniteError: An update is not finite, and it cannot be skipped.
        """
        pending = [*self.pending]
        self.pending.clear()
        numbers = torch.stack([update.numbers for update in pending]).tolist()  # waits once
        sums = self.processes.total([sum(losses) for _, *losses in numbers]).tolist()
        for update, (norm, *_), total in zip(pending, numbers, sums, strict=True):
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
            if progress.skipped_in_a_row < MOST_IN_A_ROW:
                return
            problem += f" {progress.skipped_in_a_row} updates in a row had to be skipped."
        plain = [replace(batch, asked=Batch.asked) for batch in update.batches]  # without the split
        batches = [batch for share in self.processes.gather(plain) for batch in share]
        with self.strategy.full_model() as model, self.strategy.autocast():
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
            last = f"The last good checkpoint is {saved[-1]}; resume with `{self.run.resume_command}`."
        lines = filter(None, [problem, cause, f"Usual remedies: {_REMEDIES}.", last])
        self.processes.abort(NotFiniteError("\n  ".join(lines)))


def explained(model: Model, batches: Sequence[Batch], objective: Objective | None = None) -> str:
    """Computes batches again, with new random numbers, up to the first number that is not finite.

    Args:
        model: With all parameters as they are now, after later updates if the device was not waited for.
        batches: Those of an update whose loss or gradients are not finite, of all processes.
        objective: Computes their loss; None for the model's own.

    Returns:
        A sentence about the module or the parameters.
    """
    trained = {name: value for name, value in model.named_parameters() if value.requires_grad}
    if broken := [name for name, value in trained.items() if not value.isfinite().all()]:
        return f"Non-finite parameters: {_listed(broken)}."
    for batch in batches:
        if found := _first_nonfinite(model, batch, objective, trained):
            return f"{found} Rows of the split train (from 0): {_listed(batch.rows)}."
    return "Computed again, all outputs and gradients are finite: some part is random."


def _first_nonfinite(
    model: Model, batch: Batch, objective: Objective | None, trained: Mapping[str, Tensor]
) -> str:
    """Returns a sentence about the first output, or the gradients; an empty text if all are finite."""
    outputs: list[str] = []

    def look(path: str, module: nn.Module, _: tuple[Any, ...], output: object) -> None:
        for tensor in output if isinstance(output, tuple) else (output,):
            if not outputs and isinstance(tensor, Tensor) and (count := int((~tensor.isfinite()).sum())):
                name = f"{path or 'the model'} ({type(module).__name__})"
                outputs.append(f"First non-finite output: {name}, {count:,} of {tensor.numel():,} numbers.")

    with torch.compiler.set_stance("force_eager"), ExitStack() as hooks:
        for path, module in model.named_modules():
            hooks.enter_context(module.register_forward_hook(partial(look, path)))
        batch = batch.to(model.device)
        loss = model(batch) if objective is None else model(batch, objective=objective)
    if outputs:
        return outputs[0]
    total = loss.total + loss.auxiliary
    gradients = torch.autograd.grad(total, list(trained.values()), allow_unused=True)
    names = [
        name
        for name, gradient in zip(trained, gradients, strict=True)
        if gradient is not None and not gradient.isfinite().all()
    ]
    return f"All outputs are finite. Non-finite gradients: {_listed(names)}." if names else ""


def _listed(items: Sequence[object]) -> str:
    more = f" and {len(items) - _LISTED} more" if len(items) > _LISTED else ""
    return ", ".join(map(str, items[:_LISTED])) + more
