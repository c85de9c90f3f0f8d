"""Non-finite losses, gradients and parameters: skip the update, or end the run and say where they arose."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from itertools import islice
from typing import Any, NoReturn, TypeVar

import torch
from torch import Tensor, nn

from plugformer.distributed import SINGLE_PROCESS, Processes
from plugformer.errors import NotFiniteError
from plugformer.generators import restore_generators
from plugformer.hooks.specification import Run
from plugformer.interfaces.batch import Batch
from plugformer.interfaces.model import Loss
from plugformer.model.summary import watched
from plugformer.runs.checkpoint import TrainingState
from plugformer.runs.directory import RunDirectory
from plugformer.training.strategy import TrainingStrategy

T = TypeVar("T")

MOST_IN_A_ROW = 10
"""After so many skipped updates in a row the run ends: the model is broken, not a batch."""

_SHOWN = 5
"""Names and examples in a message."""

_ADVICE = (
    "Usual remedies: a lower learning rate, a longer warm-up, training.gradient_clipping, or correcting the "
    "component or the examples."
)


def first_nonfinite(model: nn.Module, compute: Callable[[], object]) -> str:
    """Computes a loss or an evaluation again, and names the first non-finite output or gradient.

    Dropout draws new numbers. Neither parameters nor their gradients change.

    Returns:
        A sentence; an empty string if everything is finite this time.
    """
    outputs: list[str] = []

    def look(module: nn.Module, name: str, _: tuple[Any, ...], output: object) -> None:
        for tensor in [] if outputs else _tensors(output):
            if not (finite := tensor.isfinite()).all():
                count = f"{int((~finite).sum()):,} of {tensor.numel():,} numbers"
                outputs.append(f"{name or 'the model'} ({type(module).__name__}), {count}")
                return

    loss: object = None
    with torch.compiler.set_stance("force_eager"), watched(model, look), suppress(NotFiniteError):
        loss = compute()
    if outputs:
        return f"First non-finite output: {outputs[0]}."
    if not isinstance(loss, Tensor):
        return ""
    trained = {name: value for name, value in model.named_parameters() if value.requires_grad}
    gradients = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
    names = [
        name
        for name, gradient in zip(trained, gradients, strict=True)
        if gradient is not None and not gradient.isfinite().all()
    ]
    return f"All outputs are finite. Non-finite gradients: {_listed(names)}." if names else ""


def _tensors(value: object) -> Iterator[Tensor]:
    """Yields the tensors in a module's output."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from (tensor for item in value.values() for tensor in _tensors(item))
    elif isinstance(value, list | tuple):
        yield from (tensor for item in value for tensor in _tensors(item))
    elif is_dataclass(value):
        yield from (tensor for field in fields(value) for tensor in _tensors(getattr(value, field.name)))


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


@dataclass(frozen=True)
class PendingUpdate:
    """An update whose losses and gradient norm are still on the device.

    `losses` are the sums over the targets of each batch of this process, `targets` counts those of all
    processes, and `generators` are the states of the random generators before the update.
    """

    step: int
    losses: Sequence[Tensor]
    norm: Tensor
    targets: int
    batches: Sequence[Batch]
    generators: Mapping[str, Tensor]


@dataclass(frozen=True)
class NotFiniteGuard:
    """Checks updates, and parameters before they are saved.

    Reading a number waits for the device and for other processes. Therefore a GPU checks several updates
    together: before a log line, an evaluation and a checkpoint, so that no checkpoint has broken parameters.
    `describe` returns an example of the training split as text; `pending` are the unchecked updates.
    """

    run: Run
    state: TrainingState
    strategy: TrainingStrategy
    describe: Callable[[int], str]
    processes: Processes = SINGLE_PROCESS
    pending: list[PendingUpdate] = field(default_factory=list)

    @property
    def every_update(self) -> bool:
        """Whether every update is checked: it costs nothing, or the task skips updates."""
        return self.skips or (self.strategy.accelerator.device.type == "cpu" and self.processes.count == 1)

    @property
    def skips(self) -> bool:
        """Whether the task skips updates that are not finite."""
        return self.run.task.training.on_nonfinite == "skip"

    def settle(self) -> tuple[float, bool]:
        """Checks the pending updates, and counts the last one as skipped if it is not finite.

        Returns:
            The mean loss over all their targets, in nats; and whether the last update can be made.

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
                loss = total / max(1, update.targets)
                self._refuse(update, loss, norm, late=update is not pending[-1])
                return loss, False
        self.state.progress.skipped_in_a_row = 0
        return sum(sums) / max(1, sum(update.targets for update in pending)), True

    def _refuse(self, update: PendingUpdate, loss: float, norm: float, *, late: bool) -> None:
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
        cause, batches = "", update.batches
        with self.strategy.full_model() as model:

            def loss_again(batch: Batch) -> Tensor:
                loss: Loss = model(batch.to(self.strategy.accelerator.device))
                return loss.total + loss.auxiliary

            if late:
                cause = (
                    f"This was noticed after update {progress.step}, too late to find the component: use "
                    "training.log_every=1."
                )
            for batch in [] if late else update.batches:
                if cause := first_nonfinite(model, partial(loss_again, batch)):
                    batches = [batch]
                    break
        rows = [row for batch in batches for row in batch.rows]
        examples = [f"  row {row}: {self.describe(row)}" for row in rows[:_SHOWN]]
        if len(rows) > _SHOWN:
            examples.append(f"  and rows {', '.join(map(str, rows[_SHOWN:]))}")
        causes = self.processes.gather((cause, examples))
        cause, examples = next((pair for pair in causes if pair[0]), causes[0])
        cause = cause or "Computed again, all outputs and gradients are finite: some part is random."
        title = "Examples of the batch, by their rows in the split train (from 0):"
        self._end(problem, cause, title, *examples)

    def check_parameters(self) -> None:
        """Raises NotFiniteError if a parameter is not finite, so that no checkpoint holds it."""
        finite = [parameter.isfinite().all() for parameter in self.state.model.parameters()]
        if not torch.stack(finite).all():
            self._end(f"Update {self.state.progress.step} left non-finite parameters.")

    def evaluated(self, evaluate: Callable[[], T]) -> T:
        """Returns the result of an evaluation of the full model; no checkpoint may hold a broken one.

        Raises:
            NotFiniteError: The validation loss, a score or a parameter is not finite.
        """
        with self.strategy.full_model() as model:
            self.check_parameters()
            try:
                return evaluate()
            except NotFiniteError as error:
                cause = ""
                if self.processes.count == 1:  # another process may have no error, and not evaluate again
                    cause = first_nonfinite(model, evaluate)
                self._end(str(error), cause)

    def _end(self, problem: str, *details: str) -> NoReturn:
        directory = RunDirectory(self.run.directory)
        last = "No checkpoint has been saved yet."
        if saved := sorted(directory.checkpoints.glob("step-*")):
            resume = f"`plugformer train --resume --out {directory.path}{self.run.arguments}`"
            last = f"The last good checkpoint is {saved[-1]}; resume with {resume}."
        named = self.state.model.named_parameters()
        broken = [name for name, value in named if not value.isfinite().all()]
        parameters = f"Non-finite parameters: {_listed(broken)}." if broken else "All parameters are finite."
        lines = [problem, *details, parameters, _ADVICE, last]
        self.processes.abort(NotFiniteError("\n  ".join(filter(None, lines))))
