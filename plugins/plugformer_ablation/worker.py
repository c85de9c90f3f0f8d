"""The process that trains one cell on this machine, and what it tells the one that started it."""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection

from plugformer.commands import cause_of
from plugformer.errors import InterruptedRunError, PlugformerError, described
from plugformer_ablation.cell import Cell


@dataclass(frozen=True)
class Message:
    """What a worker says: how far it is, or how it ended.

    Attributes:
        step: Updates made; None at the end.
        steps: Updates in all.
        failure: Why it failed, or None.
        stopped: Whether it was interrupted.
    """

    step: int | None = None
    steps: int = 0
    failure: str | None = None
    stopped: bool = False


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

    message = trained(cell, threads, tell)
    with suppress(BrokenPipeError):
        connection.send(message)


def trained(cell: Cell, threads: int, tell: Callable[[int, int], None]) -> Message:
    """Trains a cell in this process, and returns how that ended; all it prints goes to the cell's log.

    Args:
        cell: What to train.
        threads: How many it may use.
        tell: Receives the updates made, and those there are.
    """
    import torch

    from plugformer_ablation.training import train_cell

    _write_to(cell)
    torch.set_num_threads(threads)
    try:
        train_cell(cell, tell, _say)
    except InterruptedRunError as error:
        _say(str(error))
        return Message(stopped=True)
    except PlugformerError as error:
        _say(str(error))
        return Message(failure=str(error))
    except (Exception, SystemExit) as error:  # of a component, which is a stranger
        traceback.print_exc()
        failure = cause_of(error) or described(error)
        return Message(failure=f"{failure}; {cell.log} has the traceback")
    return Message()


def _end_with_parent(connection: Connection) -> None:
    """Waits for the end of the process at the other end, then asks this one to save and stop."""
    with suppress(EOFError, OSError):
        connection.recv()
    os.kill(os.getpid(), signal.SIGTERM)


def _write_to(cell: Cell) -> None:
    """Lets standard output and errors, of libraries in C as well, go to the cell's log."""
    cell.log.parent.mkdir(parents=True, exist_ok=True)
    log = os.open(cell.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(log, stream)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
