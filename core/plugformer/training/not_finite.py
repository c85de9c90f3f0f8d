"""What happens when loss, gradients or parameters are not finite: the update is left out, or the run ends."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import islice
from typing import Any, NoReturn, TypeVar

import torch
from torch import Tensor, nn

from plugformer.distributed import SINGLE_PROCESS, Processes
from plugformer.errors import NotFiniteError
from plugformer.generators import restore_generators
from plugformer.hooks.specification import Run
from plugformer.interfaces.batch import Batch
from plugformer.interfaces.model import Model
from plugformer.model.watching import watched
from plugformer.runs.checkpoint import TrainingState
from plugformer.runs.directory import RunDirectory
from plugformer.training.parallel import Parallel

T = TypeVar("T")

MOST_IN_A_ROW = 10
"""Updates left out one after the other at most: from then on the model, not a batch, is at fault."""

_SHOWN = 5
"""Names and examples in a message."""

_ADVICE = (
    "usual remedies: a lower learning rate, a longer warm-up, training.gradient_clipping, or correcting the "
    "component or the examples"
)


def find_cause(model: Model, batches: Sequence[Batch]) -> tuple[str, Batch | None]:
    """Computes losses and gradients again, and looks where they first stop being finite.

    Dropout draws other numbers than the first time. Neither the parameters nor their gradients change.

    Args:
        model: In training mode.
        batches: Of the update.

    Returns:
        A sentence about the first module with an output that is not finite or, if there is none, about the
        parameters with such gradients; and the batch that shows it, None if all is finite now.
    """
    named = {name: each for name, each in model.named_parameters() if each.requires_grad}
    with torch.compiler.set_stance("force_eager"), _watching(model) as found:
        for batch in batches:
            loss = model(batch.to(next(model.parameters()).device))
            if found:
                return f"the first output that is not finite is that of {found[0]}", batch
            total = loss.total + loss.auxiliary
            gradients = torch.autograd.grad(total, list(named.values()), allow_unused=True)
            if names := [name for name, each in zip(named, gradients, strict=True) if not is_finite(each)]:
                return f"all outputs are finite; not finite are the gradients of {several(names)}", batch
    return "computed again, all outputs and gradients are finite: dropout or a component drew otherwise", None


def first_not_finite(model: nn.Module, compute: Callable[[], object]) -> str:
    """Computes something again that ended because numbers were not finite.

    Returns:
        A sentence about the first module with an output that is not finite.
    """
    with torch.compiler.set_stance("force_eager"), _watching(model) as found, suppress(NotFiniteError):
        compute()
    if not found:
        return "computed again, all outputs are finite: a component is not deterministic"
    return f"the first output that is not finite is that of {found[0]}"


def is_finite(tensor: Tensor | None) -> bool:
    """Returns whether a tensor, if there is one, holds finite numbers alone."""
    return tensor is None or bool(tensor.isfinite().all())


def several(names: Sequence[str]) -> str:
    """Returns the first few names as text, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


@contextmanager
def _watching(model: nn.Module) -> Iterator[list[str]]:
    """Inside, outputs that are not finite are noted in the order of computation, inner modules first."""
    found: list[str] = []

    def look(name: str, module: nn.Module, _: tuple[Any, ...], output: object) -> None:
        for tensor in _tensors(output):
            if not is_finite(tensor):
                count = f"{int((~tensor.isfinite()).sum()):,} of {tensor.numel():,} numbers"
                found.append(f"{name or 'the model'} ({type(module).__name__}): {count}")
                return

    with watched(model, look):
        yield found


def _tensors(value: object) -> Iterator[Tensor]:
    """Yields the tensors in what a module returns."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from (tensor for each in value.values() for tensor in _tensors(each))
    elif isinstance(value, list | tuple):
        yield from (tensor for each in value for tensor in _tensors(each))
    elif is_dataclass(value):
        yield from (tensor for field in fields(value) for tensor in _tensors(getattr(value, field.name)))


@dataclass(frozen=True)
class Noted:
    """An update whose numbers are still on the device.

    Attributes:
        step: Its number.
        losses: The sum over the targets of each batch that this process has.
        norm: Of its gradients, of any kind; the same in all processes.
        targets: Their number in all processes.
        batches: Those that this process has, on the CPU.
        generators: The states of all random generators before it, which come back if it is left out.
    """

    step: int
    losses: Sequence[Tensor]
    norm: Tensor
    targets: int
    batches: Sequence[Batch]
    generators: Mapping[str, Tensor]


@dataclass(frozen=True)
class Settled:
    """What noted updates were.

    Attributes:
        loss: Mean over all their targets, in nats.
        allowed: Whether the last one can be made.
    """

    loss: float
    allowed: bool


@dataclass(frozen=True)
class NotFiniteGuard:
    """Looks at updates, at each before it is made where that costs nothing, and at parameters that are saved.

    Reading a number waits for a GPU to finish its work, and for other processes. There several updates are
    looked at together: before the log is written, before an evaluation, and before a checkpoint. If one of
    them is not finite, nothing of what came after it has been saved.

    Attributes:
        run: What is trained.
        state: Its model and progress.
        parallel: The model as the processes hold it while they train.
        describe: Returns the example of a row of the training split, in words.
        processes: Those that train together.
        noted: Updates that nobody has looked at.
    """

    run: Run
    state: TrainingState
    parallel: Parallel
    describe: Callable[[int], str]
    processes: Processes = SINGLE_PROCESS
    noted: list[Noted] = field(default_factory=list)

    @property
    def every_update(self) -> bool:
        """Whether to look at every update: nobody waits for that, or the task wants to leave some out."""
        free = self.parallel.accelerator.device.type == "cpu" and self.processes.count == 1
        return free or self.skips

    @property
    def skips(self) -> bool:
        """Whether the task wants updates left out that are not finite."""
        return self.run.task.training.not_finite == "skip"

    def note(self, update: Noted) -> None:
        """Remembers an update that is about to be made."""
        self.noted.append(update)

    def settle(self) -> Settled:
        """Looks at the noted updates; if the last cannot be made, it is counted as left out.

        Raises:
            NotFiniteError: The last cannot be made, and the task says stop or too many before were left out;
                or one before it should not have been made.
        """
        noted = [*self.noted]
        self.noted.clear()
        sums, norms = self._read(noted)
        for update, total, norm in zip(noted, sums, norms, strict=True):
            if not (math.isfinite(total) and math.isfinite(norm)):
                loss = total / max(1, update.targets)
                self._refuse(update, loss, norm, late=update is not noted[-1])
                return Settled(loss, allowed=False)
        self.state.progress.skipped_in_a_row = 0
        return Settled(sum(sums) / max(1, sum(update.targets for update in noted)), allowed=True)

    def _read(self, noted: Sequence[Noted]) -> tuple[list[float], list[float]]:
        """Returns the summed loss, and the norm of the gradients, of each update; waits once."""
        tensors = [*(update.norm for update in noted), *(each for update in noted for each in update.losses)]
        numbers = torch.stack(tensors).tolist()
        norms, losses = numbers[: len(noted)], iter(numbers[len(noted) :])
        own = [sum(islice(losses, len(update.losses))) for update in noted]
        return self.processes.total(own).tolist(), norms

    def _refuse(self, update: Noted, loss: float, norm: float, *, late: bool) -> None:
        """Counts an update that is left out, or ends the run."""
        progress = self.state.progress
        progress.skipped += 1
        progress.skipped_in_a_row += 1
        if self.skips:
            restore_generators(update.generators, self.state.device)
            if progress.skipped_in_a_row < MOST_IN_A_ROW:
                return
        problem = f"update {update.step}: {_figures(loss, norm)}{self._count()}"
        with self.parallel.full_model() as model:
            if late:
                cause, batch = _seen_late(progress.step), None
            else:
                cause, batch = find_cause(model, update.batches)
        examples = self._examples(update.batches if batch is None else [batch])
        causes = self.processes.gather((batch is None, cause, examples))
        _, cause, examples = min(causes, key=lambda found: found[0])  # of the first process that found one
        self._end(problem, [cause, _parameters(model), examples])

    def check_parameters(self) -> None:
        """Refuses parameters that are not finite, so that no checkpoint holds them.

        Raises:
            NotFiniteError: Some are not.
        """
        finite = [parameter.isfinite().all() for parameter in self.state.model.parameters()]
        if not torch.stack(finite).all():
            self._end(
                f"update {self.state.progress.step} left parameters that are not finite",
                [_parameters(self.state.model)],
            )

    def evaluated(self, evaluate: Callable[[], T]) -> T:
        """Returns the result of an evaluation; no checkpoint may hold a model for which it is not finite.

        Args:
            evaluate: Computes losses or answers with the full model.

        Raises:
            NotFiniteError: The loss on the validation split, a score or a parameter is not finite.
        """
        with self.parallel.full_model() as model:
            self.check_parameters()
            try:
                return evaluate()
            except NotFiniteError as error:
                details = [_parameters(model)]
                # Of several processes, another one may have no error, and not evaluate again.
                if self.processes.count == 1:
                    details.insert(0, first_not_finite(model, evaluate))
                self._end(str(error), details)

    def _count(self) -> str:
        if not self.skips:
            return ""
        return f"; {self.state.progress.skipped_in_a_row} updates in a row had to be left out"

    def _examples(self, batches: Sequence[Batch]) -> str:
        rows = [row for batch in batches for row in batch.rows]
        lines = [f"  row {row}: {self.describe(row)}" for row in rows[:_SHOWN]]
        if others := rows[_SHOWN:]:
            lines.append(f"  and rows {', '.join(map(str, others))}")
        return "\n  ".join(["examples of the batch, by their rows in the split train (from 0):", *lines])

    def _end(self, problem: str, details: Sequence[str]) -> NoReturn:
        directory = RunDirectory(self.run.directory)
        saved = sorted(directory.checkpoints.glob("step-*"))
        last = (
            f"the last good checkpoint is {saved[-1]}; go on from it with "
            f"`plugformer train --resume --out {directory.path}{self.run.arguments}`"
            if saved
            else "no checkpoint has been saved yet: train again"
        )
        self.processes.abort(NotFiniteError("\n  ".join([problem, *details, _ADVICE, last])))


def _figures(loss: float, norm: float) -> str:
    if not math.isfinite(loss):
        return f"the loss is {loss}"
    return f"the loss is {loss:.4g}, but the norm of the gradients is {norm}"


def _seen_late(step: int) -> str:
    return (
        f"this was noticed after update {step}, when parameters had changed, so that the component to blame "
        "cannot be found; with training.log_every=1 it can"
    )


def _parameters(model: nn.Module) -> str:
    """Returns a sentence about the parameters that are not finite; if all are, about the largest number."""
    parameters = {name: each.detach() for name, each in model.named_parameters() if each.numel()}
    if broken := [name for name, each in parameters.items() if not is_finite(each)]:
        return f"parameters that are not finite: {several(broken)}"
    sizes = {name: each.abs().max().item() for name, each in parameters.items()}
    largest = max(sizes, key=lambda name: sizes[name])
    return f"all parameters are finite, the largest number among them is {sizes[largest]:.3g} in {largest}"
