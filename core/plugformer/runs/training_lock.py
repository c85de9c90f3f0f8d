"""One training of a run at a time: a file lock, which the system takes back however the process ends.

And one thread of a process that trains at a time.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from plugformer.distributed import SINGLE_PROCESS, Processes
from plugformer.errors import RunError

NAME = ".training.lock"
"""Stays in the run directory, empty: who removed it could take it from somebody who is opening it."""

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
    """Keeps everybody else from training a run; reading it stays possible.

    Args:
        run: The run directory.
        processes: Those that train together; the main one holds the lock.

    Raises:
        RunError: Somebody else trains it, or the directory cannot be written.
    """
    lock = FileLock(run / NAME, timeout=0)
    processes.on_main(lambda: _acquire(lock, run))
    try:
        yield
    finally:
        lock.release()


def is_trained(run: Path) -> bool:
    """Returns whether some process holds the lock of a directory; makes no file.

    Where files cannot be locked, or not by this user, nobody is known to.
    """
    if not (run / NAME).exists():
        return False
    try:
        with FileLock(run / NAME, timeout=0):
            return False
    except Timeout:
        return True
    except (NotImplementedError, OSError):  # as in `_acquire`
        return False


def _acquire(lock: FileLock, run: Path) -> None:
    try:
        with suppress(NotImplementedError):  # a file system without locks, such as some network ones
            lock.acquire()
    except Timeout:
        raise RunError(
            f"{run} is being trained by another process: wait for its end, stop it, or give another --out"
        ) from None
    except OSError as error:
        raise RunError(
            f"{run / NAME} cannot be locked: {error.strerror or error}; training writes to its run: "
            f"make {run} writable"
        ) from error
