"""Checkpoints for averaging: the parameters at evaluations that may become part of the average."""

import math
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from plugformer.configuration.task import Average
from plugformer.errors import RunError
from plugformer.runs.files import RESTORE, remove_folder, replacing
from plugformer.runs.weights import load_note, own_tensors, write_tensors


@dataclass(frozen=True)
class AveragingCheckpoints:
    """The last evaluations, or the best, with a file of parameters each.

    Which files there are is all that is known, so that a crash at any moment loses nothing.

    Attributes:
        folder: Where they lie; it is there only while there are some.
        average: What will be averaged; nothing is kept if None.
        higher_is_better: Direction of the monitored figure.
    """

    folder: Path
    average: Average | None
    higher_is_better: bool

    def keep(self, step: int, value: float, loss: float, model: nn.Module) -> None:
        """Keeps the parameters of an evaluation, and drops those that can no longer be needed.

        Args:
            step: Updates made.
            value: The monitored figure.
            loss: The validation loss, which decides between equals.
            model: Its parameters at the evaluation.

        Raises:
            RunError: The disk is full or the place cannot be written.
        """
        if self.average is None:
            return
        with replacing(self.folder / f"step-{step:08d}.safetensors") as temporary:
            temporary.parent.mkdir(exist_ok=True)
            write_tensors(own_tensors(model), temporary, note=f"{value!r} {loss!r}")
        chosen = self.chosen()
        for path in self._all():
            if path not in chosen:
                path.unlink()

    def chosen(self) -> list[Path]:
        """Returns the files to average, the newest last.

        Raises:
            RunError: One is damaged.
        """
        files = self._all()
        if self.average is None:
            return []
        if self.average.of == "best":
            files = sorted(sorted(files, key=self._rank)[: self.average.checkpoints])
        return files[-self.average.checkpoints :]

    def rewind(self, step: int, *, needed: bool) -> None:
        """Drops checkpoints of evaluations after `step`, which are made again.

        Args:
            step: Updates made.
            needed: Whether there has been an evaluation, and the training goes on.

        Raises:
            RunError: They are gone although some are needed: the average would be another.
        """
        if needed and self.average and not self.folder.exists():
            raise RunError(
                f"{self.folder} has none of the parameters that were to be averaged: they go when a run "
                f"has ended, and this one is back at update {step}. Take it from a backup, or train again"
            )
        for path in self._all():
            if step_of(path) > step:
                path.unlink()

    def remove(self) -> None:
        """Removes all, in one step: a part of them would make another average."""
        remove_folder(self.folder)

    def _all(self) -> list[Path]:
        return sorted(self.folder.glob("step-*.safetensors"))

    def _rank(self, path: Path) -> tuple[bool, float, float]:
        try:
            value, loss = map(float, load_note(path).split())
        except ValueError as error:
            raise RunError(f"{path} is damaged: {error}; {RESTORE}") from error
        return rank(value, loss, higher_is_better=self.higher_is_better)


def rank(value: float, loss: float, *, higher_is_better: bool) -> tuple[bool, float, float]:
    """Returns a key that sorts evaluations, the best first; of equals that with the lower loss.

    Args:
        value: The monitored figure; what is no number comes last.
        loss: The validation loss.
        higher_is_better: Direction of the figure.
    """
    if math.isnan(value):
        return True, 0.0, loss
    return False, -value if higher_is_better else value, loss


def step_of(candidate: Path) -> int:
    """Returns the number of updates made before a checkpoint was kept."""
    return int(candidate.stem.removeprefix("step-"))
