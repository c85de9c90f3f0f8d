"""Executors of cells: this process, or processes of this machine. Results are in the cells' folders."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from plugformer.errors import InterruptedRunError, PlugformerError, described
from plugformer_ablation.running.cells import Cell
from plugformer_ablation.running.claims import state_of
from plugformer_ablation.running.training import Message, train_cell, work_on

Event = tuple[Cell, Message] | None
"""A message of a cell; None if nothing has happened for a moment."""

_PRELOADED = [
    "plugformer_ablation.running.training",
    "evaluate",
    "scipy.stats",
    "torch._dynamo",  # imported when an optimizer of PyTorch is created
]


class Executor(ABC):
    """Runs at most `workers` cells at a time, each with a number of threads.

    Attributes:
        shares: Whether it is one of several that train the same study, and leaves the report to another.
        stages: The cells planned so far, by name.
        accept_code: Whether finished cells count that differ in the code of Plugformer alone.
    """

    shares = False
    accept_code = False

    def __init__(self, threads: int, workers: int | None) -> None:
        self.threads = threads
        self.workers = workers
        self.stopping = False
        self.running: dict[Any, Any] = {}
        self.stages: list[dict[str, str]] = []

    def events(self, cells: Sequence[Cell]) -> Iterator[Event]:
        """Runs cells in their order and yields events, at least every 15 seconds.

        Cells that another process trains are waited for. Closing the iterator early kills all cells; their
        checkpoints stay.
        """
        waiting = deque(cells)
        try:
            while self.running or (waiting and not self.stopping):
                messages: list[Event] = [*self._begin(waiting)]
                if not self.running and not messages:  # others have all that is left
                    time.sleep(min(1 + len(waiting) / 20, 15))
                for cell, message in self.receive() if self.running else ():
                    if message.elsewhere:
                        waiting.append(cell)
                    else:
                        messages.append((cell, message))
                yield from messages or [None]
        finally:
            self.end()

    def _begin(self, waiting: deque[Cell]) -> Iterator[tuple[Cell, Message]]:
        """Starts cells as long as there is room; yields those that other processes have settled."""
        for _ in range(len(waiting)):
            if self.stopping or (self.workers and len(self.running) >= self.workers):
                return
            cell = waiting.popleft()
            state, record = state_of(cell.folder)
            if state in ("done", "failed"):
                yield cell, Message(failure=record.get("failure"), elsewhere=True)
            elif state == "running":
                waiting.append(cell)
            else:
                self.start(cell)

    def stop(self) -> None:
        """Asks all running cells to save and end; no other begins."""
        if not self.stopping:
            self.stopping = True
            self.interrupt()

    @abstractmethod
    def start(self, cell: Cell) -> None:
        """Begins to train a cell."""

    @abstractmethod
    def receive(self) -> Iterator[tuple[Cell, Message]]:
        """Yields messages of running cells; waits for a moment if there are none."""

    def interrupt(self) -> None:  # noqa: B027 (one that runs nothing in parallel has nothing to do)
        """Asks the running cells, once, to save and end."""

    def end(self) -> None:  # noqa: B027 (as above)
        """Kills the running cells."""


class InlineExecutor(Executor):
    """Trains cells one after the other in this process; `options` are arguments of `train_cell`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(threads=1, workers=1)
        self._options = options

    def start(self, cell: Cell) -> None:
        """Trains a cell."""
        message = Message()
        try:
            train_cell(cell, lambda *_: None, lambda _: None, **self._options)
        except InterruptedRunError:
            self.stop()
            message = Message(stopped=True)
        except PlugformerError as error:
            message = Message(failure=str(error))
        except (Exception, SystemExit) as error:  # raised by a component
            message = Message(failure=described(error))
        self.running[cell.name] = cell, message

    def receive(self) -> Iterator[tuple[Cell, Message]]:
        """Yields the end of the cell."""
        while self.running:
            yield self.running.popitem()[1]


class SharingExecutor(InlineExecutor):
    """Trains cells one after the other in this process, those that no other process has."""

    shares = True

    def __init__(self) -> None:
        super().__init__()
        self.threads = torch.get_num_threads()

    def start(self, cell: Cell) -> None:
        """Trains a cell, unless another process has it."""
        message = work_on(cell, self.threads, lambda *_: None, final=True)
        if message.stopped:
            self.stop()
        self.running[cell.name] = cell, message


def available_cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def visible_gpus() -> list[str]:
    """Returns the GPUs that this process may use, by their names in `CUDA_VISIBLE_DEVICES`."""
    count = torch.cuda.device_count()
    names = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return (names or [str(number) for number in range(count)])[:count]


def start_process(target: Callable[..., None], gpu: str | None, *arguments: Any) -> tuple[Any, Connection]:
    """Starts a process that runs a function with arguments and a pipe; returns it and the pipe's other end.

    `gpu` is the only GPU that it sees. Imports that take seconds are made once, where processes can be forked
    from. It does not import the script that runs the study: that would run the study again.
    """
    forks = "forkserver" in multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("forkserver" if forks else "spawn")
    if forks:
        context.set_forkserver_preload(_PRELOADED)
    ours, theirs = context.Pipe()
    process = context.Process(target=run_on, args=(gpu, target, *arguments, theirs))
    main = vars(sys.modules["__main__"])
    file = main.pop("__file__", None)
    try:
        process.start()
    finally:
        if file is not None:
            main["__file__"] = file
    theirs.close()
    return process, ours


def run_on(gpu: str | None, target: Callable[..., None], *arguments: Any) -> None:
    """Runs a function in a process that sees one GPU alone, or all of them if it is None."""
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu  # CUDA reads it at its first use, which is later
    target(*arguments)


@dataclass
class _Worker:
    cell: Cell
    process: Any
    gpu: str | None = None
    ended: bool = False


class LocalExecutor(Executor):
    """Runs cells in processes of this machine; each has a share of the cores and the least used GPU.

    By default `pack` of them run at a time for each GPU, or else one for each core.
    """

    def __init__(self, workers: int | None = None, pack: int = 1) -> None:
        cores, self.gpus = available_cores(), visible_gpus()
        workers = workers or pack * len(self.gpus) or cores
        super().__init__(max(1, cores // workers), workers)
        self.running: dict[Connection, _Worker] = {}

    def start(self, cell: Cell) -> None:
        """Starts a process for a cell."""
        used = [worker.gpu for worker in self.running.values()]
        gpu = min(self.gpus, key=used.count, default=None)
        process, connection = start_process(work, gpu, cell, self.threads)
        self.running[connection] = _Worker(cell, process, gpu)

    def receive(self) -> Iterator[tuple[Cell, Message]]:
        """Yields a message of each cell that has sent one, or whose process has ended."""
        ready: list[Any] = wait(list(self.running), timeout=0.2)
        for connection in ready:
            worker = self.running[connection]
            try:
                message: Message = connection.recv()
            except (EOFError, ConnectionError):
                del self.running[connection]
                worker.process.join()
                if worker.ended:
                    continue
                # Without a message, SIGTERM came before the training, when there was nothing to save.
                message = Message(failure=_cause_of_end(worker), lost=True)
                if self.stopping:
                    message = Message(stopped=True)
            worker.ended = message.step is None
            yield worker.cell, message

    def interrupt(self) -> None:
        """Sends SIGTERM, upon which trainings save and end."""
        for worker in self.running.values():
            _signal(worker.process, signal.SIGTERM)

    def end(self) -> None:
        """Kills the processes, and waits for their end."""
        for worker in self.running.values():
            _signal(worker.process, signal.SIGKILL if os.name == "posix" else signal.SIGTERM)
            worker.process.join()
        self.running.clear()


def _cause_of_end(worker: _Worker) -> str:
    reason = f"its process ended with status {worker.process.exitcode}"
    if worker.process.exitcode == -signal.SIGKILL:
        reason = "its process was ended by SIGKILL, perhaps because memory ran out: try fewer --workers"
    return f"{reason}; {worker.cell.log} has its output"


def _signal(process: Any, number: int) -> None:
    """Sends a signal to a worker and all processes that it has started."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, number)
        else:
            process.terminate()


def work(cell: Cell, threads: int, connection: Connection) -> None:
    """Trains a cell in a process for it, and sends messages to the process that started it.

    When the process that started it has ended, it saves and ends.
    """
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)  # Ctrl-C is for the study, which then asks its workers to stop
    threading.Thread(target=_end_with_parent, args=(connection,), daemon=True).start()

    def send(message: Message) -> None:
        with suppress(BrokenPipeError):
            connection.send(message)

    send(work_on(cell, threads, lambda step, steps: send(Message(step, steps))))


def _end_with_parent(connection: Connection) -> None:
    """Waits until the process at the other end has ended, then asks this one to save and stop."""
    with suppress(EOFError, OSError):
        connection.recv()
    os.kill(os.getpid(), signal.SIGTERM)
