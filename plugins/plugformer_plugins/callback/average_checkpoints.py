"""The average of the parameters at several evaluations."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field
from torch import Tensor

from plugformer.distributed import Processes
from plugformer.hooks import Run, hookimpl
from plugformer.interfaces import Callback
from plugformer.runs import load_tensors, own_tensors, save_tensors


class AverageCheckpoints(Callback):
    """Ends the training with the mean of the parameters at its last or best evaluations.

    Attention Is All You Need, Vaswani et al. 2017, section 6.1: https://arxiv.org/abs/1706.03762. The mean is
    computed in float64. The evaluated parameters count: with `ema` they are its averages. The folder
    `averaging` of the run has a file for each evaluation that may become part of the average.

    Args:
        checkpoints: Number of evaluations; all, if there are fewer in the end.
        of: The last evaluations, or the best by `training.monitor`.
    """

    def __init__(
        self,
        *,
        checkpoints: Annotated[int, Field(ge=1)] = 5,
        of: Literal["last", "best"] = "last",
    ) -> None:
        self.checkpoints = checkpoints
        self.of = of
        self.chosen: list[tuple[int, tuple[bool, float, float]]] = []

    @hookimpl
    def model_evaluated(self, run: Run, step: int, rank: tuple[bool, float, float]) -> None:
        """Saves the evaluated parameters, and forgets those that can no longer be needed."""
        if Processes.join().main:
            _file(run, step).parent.mkdir(exist_ok=True)
            save_tensors(own_tensors(run.model), _file(run, step))
        self.chosen.append((step, rank))
        if self.of == "best":
            self.chosen.sort(key=lambda evaluation: evaluation[1])
            del self.chosen[self.checkpoints :]
        self.chosen = sorted(self.chosen)[-self.checkpoints :]

    @hookimpl
    def checkpoint_saved(self, run: Run) -> None:
        """Removes the files that the saved checkpoint does not need."""
        if Processes.join().main:
            for file in _file(run, 0).parent.glob("step-*.safetensors"):
                if file not in [_file(run, step) for step, _ in self.chosen]:
                    file.unlink(missing_ok=True)

    @hookimpl
    def averaged_parameters(self, run: Run) -> tuple[list[int], Mapping[str, Tensor]] | None:
        """Returns the mean; None if there has been no evaluation."""
        steps = [step for step, _ in self.chosen]
        return (steps, mean_tensors([_file(run, step) for step in steps])) if steps else None

    def state_dict(self) -> dict[str, Any]:
        """Returns the steps and ranks of the chosen evaluations."""
        return {"chosen": self.chosen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the chosen evaluations."""
        self.chosen = list(state["chosen"])


def mean_tensors(files: list[Path]) -> dict[str, Tensor]:
    """Returns the mean of the parameters in several files of one model, computed in float64.

    Integers and truth values, such as counters, are those of the last file.

    Raises:
        RunError: A file is missing or damaged.
    """
    last = load_tensors(files[-1])
    totals = {name: tensor.double() for name, tensor in last.items() if tensor.is_floating_point()}
    for file in files[:-1]:
        tensors = load_tensors(file)
        totals = {name: total + tensors[name] for name, total in totals.items()}
    return last | {name: (total / len(files)).to(last[name].dtype) for name, total in totals.items()}


def _file(run: Run, step: int) -> Path:
    return run.directory / "averaging" / f"step-{step:08d}.safetensors"
