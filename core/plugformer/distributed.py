"""The devices of a training, and its processes, which `torchrun` starts: their messages, and signals."""

import atexit
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache, cached_property
from types import FrameType
from typing import NoReturn, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from numpy.typing import ArrayLike
from torch import distributed

from plugformer.errors import ConfigurationError, InterruptedRunError, PlugformerError, RunError, described

__all__ = ["Processes"]

T = TypeVar("T")

STEP = timedelta(minutes=10)
PREPARATION = timedelta(days=7)
"""Time-outs of processes that wait for others within a step, and for one that prepares, scores or writes."""


def chosen_device(name: str | torch.device | None = None) -> torch.device:
    """Returns the device that PyTorch calls `cpu`, `cuda`, `cuda:1` or `mps`; the best one if None.

    Raises:
        ConfigurationError: There is no such device.
    """
    best = torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    if name is None:
        return best
    count = 1 if best.type == "cpu" else torch.accelerator.device_count()
    with suppress(RuntimeError):  # no type of device has this name
        device = torch.device(name)
        if device.type == "cpu" or (device.type == best.type and (device.index or 0) < count):
            return device
    known = "cpu" if best.type == "cpu" else f"cpu and {best.type}:0 to {best.type}:{count - 1}"
    raise ConfigurationError(f"this machine has no device {str(name)!r}; it has {known}")


class Processes:
    """Processes that do the same work on different examples; a single one by default.

    All processes call the methods in the same order, except `share`.

    Args:
        index: The rank of this process.
        count: The number of processes.
        local: The rank of this process on its machine.
        device: Where it computes; the best device if None.
    """

    def __init__(
        self, index: int = 0, count: int = 1, *, local: int = 0, device: str | torch.device | None = None
    ) -> None:
        self.index = index
        self.count = count
        self._local = local
        self._device = device
        self._steps = self._patient = None
        if count > 1:
            self._steps = distributed.new_group(backend="gloo", timeout=STEP)
            self._patient = distributed.new_group(backend="gloo", timeout=PREPARATION)
            atexit.register(self._leave)

    def _leave(self) -> None:
        """Ends the groups' threads, which crash if they free a tensor while Python exits."""
        del self._steps, self._patient
        distributed.destroy_process_group()

    @classmethod
    def join(cls, device: str | torch.device | None = None) -> "Processes":
        """Returns the processes that torchrun has started together with this one, or this one alone.

        Raises:
            ConfigurationError: There is no such device, or several processes are given one.
        """
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls(device=None if device is None else chosen_device(device))
        if device is not None:
            words = "the launcher chooses the device of each process"
            raise ConfigurationError(f"device {str(device)!r}: {words}")
        return _joined()

    @cached_property
    def device(self) -> torch.device:
        """Where this process computes."""
        return chosen_device(self._device)

    @property
    def main(self) -> bool:
        """Whether this is the process that writes files and messages."""
        return self.index == 0

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """Returns this process's share of the items."""
        return items[self.index :: self.count]

    def total(self, values: ArrayLike) -> Float[ndarray, "*values"]:
        """Returns the sums of numbers over all processes."""
        numbers = np.asarray(values, dtype=np.float64)
        if self.count == 1:
            return numbers
        sums = torch.tensor(numbers)
        with self.peer_failure_as_error():
            distributed.all_reduce(sums, group=self._steps)
        return sums.numpy()

    def gather(self, value: T) -> list[T]:
        """Returns the values of all processes, in the order of their ranks."""
        if self.count == 1:
            return [value]
        values: list[T | None] = [None] * self.count
        with self.peer_failure_as_error():
            distributed.all_gather_object(values, value, group=self._patient)
        return values  # type: ignore[return-value]  # all have been filled

    def on_main(self, action: Callable[[], T]) -> T:
        """Runs an action on the main process and returns its result in all; its error ends all."""
        with self.raise_everywhere():
            result = action() if self.main else None
        return self.gather(result)[0]  # type: ignore[return-value]  # the main process has one

    def first_on_each_machine(self, action: Callable[[], T]) -> T:
        """Runs an action on one process of each machine, then on the others, which can use its files."""
        results: list[T] = []
        for turn in (True, False):
            with self.raise_everywhere():
                if (self._local == 0) is turn:
                    results = [action()]
        return results[0]

    @contextmanager
    def raise_everywhere(self) -> Iterator[None]:
        """Ends all processes if one raises an error within the block, which contains no collective.

        The main process raises the error, or a RunError about another process; others raise SystemExit.
        """
        failure: Exception | None = None
        try:
            yield
        except Exception as error:
            failure = error
        message = str(failure) if isinstance(failure, PlugformerError) else failure and described(failure)
        messages = self.gather(message)
        failed = [index for index, message in enumerate(messages) if message is not None]
        if failed and not self.main:
            raise SystemExit(_status(failure))
        if failure is not None:
            raise failure
        if failed:
            raise RunError(f"process {failed[0]} of {self.count}: {messages[failed[0]]}")

    def abort(self, error: PlugformerError) -> NoReturn:
        """Raises an error that all processes have reached; only the main process reports it."""
        raise error if self.main else SystemExit(_status(error))

    @contextmanager
    def peer_failure_as_error(self) -> Iterator[None]:
        """Raises a RunError if another process has ended or does not answer."""
        try:
            yield
        except RuntimeError as error:
            if not isinstance(error, distributed.DistError) and "gloo" not in str(error):
                raise
            cause = str(error).splitlines()[0]
            message = f"process {self.index} of {self.count} has lost another process ({cause})"
            raise RunError(f"{message}; see its messages, then resume with --resume") from error


SINGLE_PROCESS = Processes()
"""The process of a training that no launcher has started."""


@cache
def _joined() -> Processes:
    local, best = int(os.environ.get("LOCAL_RANK", "0")), chosen_device()
    device = torch.device("cpu")
    if best.type not in ("cpu", "mps"):  # no process group knows mps
        device = chosen_device(f"{best.type}:{local}")
        torch.accelerator.set_device_index(local)
    distributed.init_process_group(distributed.get_default_backend_for_device(device), timeout=STEP)
    return Processes(distributed.get_rank(), distributed.get_world_size(), local=local, device=device)


def _status(error: Exception | None) -> int:
    return 130 if isinstance(error, InterruptedRunError) else 2


ONE_REQUEST = 1.0
"""Seconds in which all signals are one request: a launcher passes on what the terminal has sent already."""


class Interruption:
    """Listens to the signals that ask a run to stop: Ctrl-C, SIGTERM, SIGUSR1, the end of the terminal.

    Attributes:
        requested: The name of the first signal; None as long as there was none.
    """

    requested: str | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Inside, the first of these signals sets `requested`; one that comes later acts as usual."""
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread may set handlers; a notebook's worker keeps its own
            return
        signals = [signal.SIGINT, signal.SIGTERM]
        if hasattr(signal, "SIGUSR1"):  # what schedulers send before the time of a job is over
            signals.append(signal.SIGUSR1)
        if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signals.append(signal.SIGHUP)  # the end of the terminal; Windows has none, nohup ignores it
        self._usual = {number: signal.signal(number, self._note) for number in signals}
        try:
            yield
        finally:
            self._restore()

    def _restore(self) -> None:
        for number, handler in self._usual.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 (Python's signature)
        now = time.monotonic()
        if self.requested is None:
            self.requested, self._since = signal.Signals(number).name, now
        elif now - self._since > ONE_REQUEST:
            self._restore()
            signal.raise_signal(number)
