"""What happens when loss, gradients or parameters are not finite: the update is left out, or the run ends."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NoReturn, TypeVar

from torch import Tensor, nn

from plugformer.distributed import ALONE, Processes
from plugformer.errors import NotFiniteError
from plugformer.hooks.specification import Run
from plugformer.interfaces.batch import Batch
from plugformer.interfaces.model import Model
from plugformer.runs.checkpoint import TrainingState
from plugformer.runs.directory import RunDirectory
from plugformer.runs.generators import restore_generators
from plugformer.training.cause import find_cause, first_not_finite, is_finite, several

T = TypeVar("T")

MOST_IN_A_ROW = 10
"""Updates left out one after the other at most: from then on the model, not a batch, is at fault."""

_EXAMPLES = 5

_ADVICE = (
    "usual remedies: a lower learning rate, a longer warm-up, training.gradient_clipping, or correcting the "
    "component or the examples"
)


class NotFiniteGuard:
    """Looks at every update before it is made, and at the parameters before they are saved.

    Args:
        run: What is trained.
        state: Its model and progress.
        describe: Returns the example of a row of the training split, in words.
        processes: Those that train together.
    """

    def __init__(
        self,
        run: Run,
        state: TrainingState,
        describe: Callable[[int], str],
        processes: Processes = ALONE,
    ) -> None:
        self._run = run
        self._state = state
        self._describe = describe
        self._processes = processes

    def allows(
        self,
        loss: float,
        norm: float,
        whole: Callable[[], AbstractContextManager[Model]],
        batches: Sequence[Batch],
        generators: Mapping[str, Tensor],
    ) -> bool:
        """Returns whether an update can be made; if not, it is counted as left out.

        Args:
            loss: Of the update.
            norm: Of its gradients, of any kind; as the loss, the same in all processes.
            whole: Returns where the whole model is at hand; that of all processes.
            batches: Those of the update that this process has.
            generators: The states of all random generators before it; they are put back if it is left out.

        Raises:
            NotFiniteError: It cannot be made, and the task says stop or too many before were left out.
        """
        progress = self._state.progress
        if math.isfinite(loss) and math.isfinite(norm):
            progress.skipped_in_a_row = 0
            return True
        progress.skipped += 1
        progress.skipped_in_a_row += 1
        restore_generators(generators)
        if self._run.task.training.not_finite == "skip" and progress.skipped_in_a_row < MOST_IN_A_ROW:
            return False
        with whole() as model:
            cause, batch = find_cause(model, batches)
        examples = self._examples(batches if batch is None else [batch])
        causes = self._processes.gather((batch is None, cause, examples))
        _, cause, examples = min(causes, key=lambda found: found[0])  # of the first process that found one
        return self._end(
            f"update {progress.step}: {_figures(loss, norm)}{self._count()}",
            [cause, _parameters(model), examples],
        )

    def check_parameters(self) -> None:
        """Refuses parameters that are not finite, so that no checkpoint holds them.

        Raises:
            NotFiniteError: Some are not.
        """
        if not all(is_finite(parameter) for parameter in self._state.model.parameters()):
            self._end(
                f"update {self._state.progress.step} left parameters that are not finite",
                [_parameters(self._state.model)],
            )

    def evaluated(self, evaluate: Callable[[], T]) -> T:
        """Returns what the model makes of the validation split; no checkpoint may hold one that fails there.

        Args:
            evaluate: Computes losses or answers with the model.

        Raises:
            NotFiniteError: The loss on the validation split, a score or a parameter is not finite.
        """
        self.check_parameters()
        try:
            return evaluate()
        except NotFiniteError as error:
            details = [_parameters(self._state.model)]
            if (
                self._processes.count == 1
            ):  # of several, another one may have no error, and not evaluate again
                details.insert(0, first_not_finite(self._state.model, evaluate))
            self._end(str(error), details)

    def _count(self) -> str:
        if self._run.task.training.not_finite == "stop":
            return ""
        return f"; {self._state.progress.skipped_in_a_row} updates in a row had to be left out"

    def _examples(self, batches: Sequence[Batch]) -> str:
        rows = [row for batch in batches for row in batch.rows]
        lines = [f"  row {row}: {self._describe(row)}" for row in rows[:_EXAMPLES]]
        if others := rows[_EXAMPLES:]:
            lines.append(f"  and rows {', '.join(map(str, others))}")
        return "\n  ".join(["examples of the batch, by their rows in the split train (from 0):", *lines])

    def _end(self, problem: str, details: Sequence[str]) -> NoReturn:
        directory = RunDirectory(self._run.directory)
        saved = sorted(directory.checkpoints.glob("step-*"))
        last = (
            f"the last good checkpoint is {saved[-1]}; go on from it with "
            f"`plugformer train --resume --out {directory.path}{self._run.arguments}`"
            if saved
            else "no checkpoint has been saved yet: train again"
        )
        self._processes.end(NotFiniteError("\n  ".join([problem, *details, _ADVICE, last])))


def _figures(loss: float, norm: float) -> str:
    if not math.isfinite(loss):
        return f"the loss is {loss}"
    return f"the loss is {loss:.4g}, but the norm of the gradients is {norm}"


def _parameters(model: nn.Module) -> str:
    """Returns a sentence about the parameters that are not finite; if all are, about the largest number."""
    parameters = {name: each.detach() for name, each in model.named_parameters() if each.numel()}
    if broken := [name for name, each in parameters.items() if not is_finite(each)]:
        return f"parameters that are not finite: {several(broken)}"
    sizes = {name: each.abs().max().item() for name, each in parameters.items()}
    largest = max(sizes, key=lambda name: sizes[name])
    return f"all parameters are finite, the largest number among them is {sizes[largest]:.3g} in {largest}"
