"""The processes that train one model together: who is who, and what they tell each other.

Numbers and small objects travel here, over gloo, on every kind of machine; gradients travel elsewhere.
"""

import atexit
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from typing import NoReturn, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from numpy.typing import ArrayLike
from torch import distributed

from plugformer.errors import (
    ConfigurationError,
    InterruptedRunError,
    PlugformerError,
    RunError,
    described,
)

__all__ = ["SINGLE_PROCESS", "Processes"]

T = TypeVar("T")

STEP = timedelta(minutes=10)
"""How long a process waits for another within a step; one that has ended is noticed at once."""

PREPARATION = timedelta(days=7)
"""How long processes wait for one that prepares data, scores outputs or writes."""


class ReportedByMainProcess(SystemExit):
    """The end of a process because of an error that the main process reports."""


class Processes:
    """Processes that do the same work on different examples; this one alone, unless they are more.

    Methods are collectives, except `share`: all processes call them in the same order, and none continues
    before the others have contributed.

    Args:
        index: Number of this process.
        count: Number of all.
        first: Whether it is the first on its machine.

    Attributes:
        index: Number of this process.
        count: Number of all.
    """

    def __init__(self, index: int = 0, count: int = 1, *, first: bool = True) -> None:
        self.index = index
        self.count = count
        self._first = first
        self._steps = self._patient = None
        if count > 1:
            self._steps = distributed.new_group(backend="gloo", timeout=STEP)
            self._patient = distributed.new_group(backend="gloo", timeout=PREPARATION)
            atexit.register(self._leave)

    def _leave(self) -> None:
        """Ends the groups' threads: one that lets go of a tensor while Python ends takes the process down."""
        del self._steps, self._patient
        distributed.destroy_process_group()

    @classmethod
    def join(cls) -> "Processes":
        """Returns the processes that a launcher has started with this one.

        Raises:
            ConfigurationError: The launcher was asked to shard the model itself.
        """
        if os.environ.get("ACCELERATE_USE_FSDP", "").lower() in ("1", "true"):
            raise ConfigurationError(
                "`accelerate launch` was asked to shard the model (--use_fsdp, or its configuration file), "
                "which does not know the model's layers\n  launch with --multi_gpu and without --use_fsdp, "
                "and train with `--set training.shard=true`"
            )
        return _joined()

    @property
    def main(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.index == 0

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """Returns this process's share of the items."""
        return items[self.index :: self.count]

    def total(self, values: ArrayLike) -> Float[ndarray, "*values"]:
        """Returns the sums of figures over all processes."""
        return self._sum(values, self._steps)

    def any(self, flag: bool) -> bool:
        """Returns whether a flag is true in any process."""
        return bool(self.total([flag])[0])

    def gather(self, value: T) -> list[T]:
        """Returns the values of all processes, in the order of their numbers."""
        if self.count == 1:
            return [value]
        values: list[T | None] = [None] * self.count
        with self.peer_failure_as_error():
            distributed.all_gather_object(values, value, group=self._patient)
        return values  # type: ignore[return-value]  # all have been filled

    def on_main(self, action: Callable[[], T]) -> T:
        """Runs an action on the main process and returns its result to all; its error ends all."""
        results: list[T | None] = [None]
        with self.raise_everywhere():
            if self.main:
                results = [action()]
        if self.count > 1:
            with self.peer_failure_as_error():
                distributed.broadcast_object_list(results, src=0, group=self._patient)
        return results[0]  # type: ignore[return-value]  # it has been filled

    def first_on_each_machine(self, action: Callable[[], T]) -> T:
        """Runs an action on one process of each machine, then on the others, which find what it has made."""
        results: list[T] = []
        for turn in (True, False):
            with self.raise_everywhere():
                if self._first is turn:
                    results = [action()]
        return results[0]

    @contextmanager
    def raise_everywhere(self) -> Iterator[None]:
        """Ends all processes if one raises an error within the block, which contains no collective.

        Raises:
            Exception: That error, or on the main process a RunError that tells it.
            ReportedByMainProcess: In the other processes.
        """
        failure: Exception | None = None
        try:
            yield
        except Exception as error:  # whatever it is: the others must not wait for this process
            failure = error
        if not self._sum([failure is not None], self._patient).any():
            return
        messages = self.gather("" if failure is None else _message(failure))
        failed = [number for number, message in enumerate(messages) if message]
        if failed and not self.main:
            raise ReportedByMainProcess(_status(failure))
        if failure is not None:
            raise failure
        if failed:
            raise RunError(f"process {failed[0]} of {self.count}: {messages[failed[0]]}")

    def _sum(self, values: ArrayLike, group: distributed.ProcessGroup | None) -> Float[ndarray, "*values"]:
        own = np.asarray(values, dtype=np.float64)
        if self.count == 1:
            return own
        sums = torch.tensor(own)
        with self.peer_failure_as_error():
            distributed.all_reduce(sums, group=group)
        return sums.numpy()

    def abort(self, error: PlugformerError) -> NoReturn:
        """Raises an error that all processes have come to; which the main process alone reports."""
        raise error if self.main else ReportedByMainProcess(_status(error))

    @contextmanager
    def peer_failure_as_error(self) -> Iterator[None]:
        """Turns the end of another process into an error that says so.

        Raises:
            RunError: Another process has ended, or does not answer.
        """
        try:
            yield
        except RuntimeError as error:
            if not isinstance(error, distributed.DistError) and "gloo" not in str(error):
                raise
            raise RunError(
                f"process {self.index} of {self.count} has lost another one, which has ended or does not "
                f"answer ({str(error).splitlines()[0]}). Messages of that one, if any, tell why; "
                "go on from the last checkpoint with --resume"
            ) from error


SINGLE_PROCESS = Processes()
"""What everything but training works with."""


@cache
def _joined() -> Processes:
    from accelerate import PartialState

    state = PartialState(cpu=_on_cpu(), timeout=STEP)
    if state.num_processes == 1:
        return SINGLE_PROCESS
    return Processes(state.process_index, state.num_processes, first=state.local_process_index == 0)


def _message(error: Exception) -> str:
    return str(error) if isinstance(error, PlugformerError) else described(error)


def _status(error: Exception | None) -> int:
    return 130 if isinstance(error, InterruptedRunError) else 2


def _on_cpu() -> bool:
    """Returns whether to compute on the CPU: as asked, or because several processes have no better device.

    Accelerate alone would let each of them believe that it is the only one.
    """
    asked = os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true")
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    device = torch.accelerator.current_accelerator(check_available=True)  # else that of PyTorch's build
    return asked or (several and (device is None or device.type == "mps"))  # no process group knows mps
