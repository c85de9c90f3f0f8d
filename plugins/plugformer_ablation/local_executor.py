"""Cells in processes of this machine that share its cores, each in a process group of its own."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from plugformer_ablation.cells import Cell
from plugformer_ablation.executor import Executor
from plugformer_ablation.training import Message, work_on

_STARTED_BY = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
_HEARTBEAT = 0.2

_PRELOADED = [
    "plugformer_ablation.training",
    "evaluate",
    "scipy.stats",
    "torch._dynamo",  # which PyTorch's optimizers import when they are made
    "torch.distributed.tensor",  # which Accelerate imports to look at a model
]
"""Imports that take seconds are made once, in the process that workers are forked from."""


def available_cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def visible_gpus() -> list[str]:
    """Returns the GPUs that this process may use, as `CUDA_VISIBLE_DEVICES` names them."""
    import torch

    count = torch.cuda.device_count()
    named = [each.strip() for each in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if each.strip()]
    return (named or [str(number) for number in range(count)])[:count]


@dataclass
class _Running:
    cell: Cell
    process: Any
    gpu: str | None = None
    told: bool = False


class LocalExecutor(Executor):
    """Runs so many cells at a time, each with its share of the cores, and on the GPU that has the fewest.

    Args:
        workers: Cells at a time.
        threads: Of each cell.
        gpus: What `CUDA_VISIBLE_DEVICES` calls them; none if cells are to compute on the CPU.
    """

    def __init__(self, workers: int, threads: int, gpus: Sequence[str] = ()) -> None:
        super().__init__(threads, workers)
        self._gpus = gpus
        self._running: dict[Connection, _Running] = {}
        self._context: Any = multiprocessing.get_context(_STARTED_BY)  # the base class lacks Process
        if _STARTED_BY == "forkserver":
            self._context.set_forkserver_preload(_PRELOADED)

    def start(self, cell: Cell) -> None:
        """Starts a process for a cell."""
        ours, theirs = self._context.Pipe()
        taken = [each.gpu for each in self._running.values()]
        gpu = min(self._gpus, key=taken.count, default=None)
        arguments = (cell, self.threads, theirs, gpu)
        process = self._context.Process(target=work, args=arguments, name=str(cell))
        process.start()
        theirs.close()
        self._running[ours] = _Running(cell, process, gpu)

    def receive(self) -> Iterator[tuple[Cell, Message]]:
        """Yields a message of each cell that has told something, or whose process has ended."""
        ready: list[Any] = wait(list(self._running), timeout=_HEARTBEAT)
        for connection in ready:
            running = self._running[connection]
            try:
                message: Message = connection.recv()
            except (EOFError, ConnectionError):
                del self._running[connection]
                running.process.join()
                if not running.told:
                    yield running.cell, self._unexplained(running)
                continue
            running.told = message.step is None
            yield running.cell, message

    def interrupt(self) -> None:
        """Sends SIGTERM, upon which trainings save and end."""
        for running in self._running.values():
            _signal(running.process, signal.SIGTERM)

    def end(self) -> None:
        """Kills the processes, and waits for their end."""
        for running in self._running.values():
            _signal(running.process, signal.SIGKILL if os.name == "posix" else signal.SIGTERM)
            running.process.join()
        self._running.clear()

    def _unexplained(self, running: _Running) -> Message:
        """Returns the outcome of a cell whose process ended without a message."""
        if self._stopping:  # SIGTERM came outside of the training, where there is nothing to save
            return Message(stopped=True)
        status = running.process.exitcode
        reason = f"its process ended with status {status}"
        if status is not None and status < 0:
            names = {each.value: each.name for each in signal.Signals}  # those of real time have none
            reason = f"its process was ended by {names.get(-status, f'signal {-status}')}"
            if status == -signal.SIGKILL:
                reason += ", perhaps because memory ran out: try fewer --workers"
        return Message(failure=f"{reason}; {running.cell.log} has what it said")


def _signal(process: Any, number: int) -> None:
    """Sends a signal to a worker and all that it has started."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, number)
        else:
            process.terminate()


def work(cell: Cell, threads: int, connection: Connection, gpu: str | None = None) -> None:
    """Trains a cell and tells how far it is.

    Args:
        cell: What to train.
        threads: How many it may use.
        connection: To the process that started it; when that one is gone, the worker saves and ends.
        gpu: The only one that it sees; whatever there is if None.
    """
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu  # CUDA reads it at its first use, which is later
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)  # Ctrl-C is for the study, which then asks its workers to stop
    threading.Thread(target=_end_with_parent, args=(connection,), daemon=True).start()

    def tell(step: int, steps: int) -> None:
        with suppress(BrokenPipeError):
            connection.send(Message(step, steps))

    message = work_on(cell, threads, tell)
    with suppress(BrokenPipeError):
        connection.send(message)


def _end_with_parent(connection: Connection) -> None:
    """Waits for the end of the process at the other end, then asks this one to save and stop."""
    with suppress(EOFError, OSError):
        connection.recv()
    os.kill(os.getpid(), signal.SIGTERM)
