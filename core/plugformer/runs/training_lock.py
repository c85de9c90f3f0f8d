"""Locks: one process trains a run at a time, and one thread of a process."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from plugformer.distributed import SINGLE_PROCESS, Processes
from plugformer.errors import RunError

NAME = ".training.lock"
"""An empty file that stays in the run directory; the system releases its lock however the process ends."""

_THREAD = threading.RLock()


@contextmanager
def one_thread() -> Iterator[None]:
    """Keeps other threads of this process from training: all draw from the same random generators.

    Raises:
        RunError: Another thread trains.
    """
    if not _THREAD.acquire(blocking=False):
        raise RunError(
            "another thread of this process is training, and both would draw from the same random "
            "generators: train one after the other, or each in a process of its own"
        )
    try:
        yield
    finally:
        _THREAD.release()


@contextmanager
def training_lock(run: Path, processes: Processes = SINGLE_PROCESS) -> Iterator[None]:
    """Keeps other processes from training a run; reading it stays possible.

    Args:
        run: The run directory.
        processes: The processes that train together; the main one holds the lock.

    Raises:
        RunError: Another process trains it, or the directory cannot be written.
    """
    lock = FileLock(run / NAME, timeout=0)

    def acquire() -> None:
        try:
            with suppress(NotImplementedError):  # a file system without locks, such as some network ones
                lock.acquire()
        except Timeout:
            raise RunError(
                f"{run} is being trained by another process: wait for its end, stop it, or give another --out"
            ) from None
        except OSError as error:
            raise RunError(f"{run} cannot be written: {error.strerror or error}") from error

    processes.on_main(acquire)
    try:
        yield
    finally:
        lock.release()


def is_trained(run: Path) -> bool:
    """Returns whether a process holds the lock of a directory; False where files cannot be locked."""
    if not (run / NAME).exists():
        return False
    try:
        with FileLock(run / NAME, timeout=0):
            return False
    except Timeout:
        return True
    except (NotImplementedError, OSError):
        return False
