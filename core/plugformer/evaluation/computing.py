"""How much a model answers at once, and with which numbers: as it was trained."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch

from plugformer.configuration.task import DEFAULT_BATCH_TOKENS, Task
from plugformer.interfaces import Model, evaluating

_MORE_THAN_IN_TRAINING = 4
"""Without gradients a model keeps the states of one layer, not of all."""

_MOST = 8192
"""Positions that keep a processor busy."""

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass
class Computing:
    """What all evaluations of a model have in common.

    Attributes:
        batch_tokens: Positions of a batch at most, padding included; an example that is longer is one alone.
        precision: As `training.precision` has it; float32 if None.
    """

    batch_tokens: int
    precision: str | None = None

    @classmethod
    def of(cls, task: Task) -> "Computing":
        """Returns what a task's training says: four times its batch, at most 8,192 positions."""
        training = task.training
        tokens = training.batch_tokens or DEFAULT_BATCH_TOKENS
        if training.batch_size is not None:
            tokens = training.batch_size * task.model.max_length
        return cls(min(_MORE_THAN_IN_TRAINING * tokens, _MOST), training.precision)

    def halve(self) -> None:
        """Makes batches smaller from now on, because memory has run out, and warns."""
        self.batch_tokens = max(1, self.batch_tokens // 2)
        warnings.warn(
            f"memory has run out: evaluation continues with batches of {self.batch_tokens:,} positions; "
            "training.batch_tokens, which it follows, is large for this machine",
            RuntimeWarning,
            stacklevel=2,
        )

    @contextmanager
    def evaluating(self, model: Model) -> Iterator[None]:
        """Inside, a model is in evaluation mode and computes in the precision of its training.

        float16 needs a GPU: without one, and on devices that PyTorch cannot mix precisions on, it is float32.
        """
        device = next(model.parameters()).device.type
        dtype = _DTYPES.get(self.precision or "")
        mixed = dtype is not None and torch.amp.is_autocast_available(device)
        if device == "cpu" and dtype is torch.float16:
            mixed = False
        with evaluating(model), torch.autocast(device, dtype) if mixed else nullcontext():
            yield
