"""A study runs once at a time in its folder."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from plugformer.errors import RunError
from plugformer.runs import remove_leftovers


@contextmanager
def study_lock(out: Path) -> Iterator[None]:
    """Makes the folder of a study, and keeps everybody else from running one there.

    What killed processes left in it under temporary names is removed.

    Raises:
        RunError: Somebody else does, or it cannot be written.
    """
    lock = FileLock(out / ".study.lock", timeout=0)
    try:
        out.mkdir(parents=True, exist_ok=True)
        with suppress(NotImplementedError):  # a file system without locks, such as some network ones
            lock.acquire()
    except Timeout:
        raise RunError(f"{out}: a study is running there; wait for its end, or give another --out") from None
    except OSError as error:
        raise RunError(f"{out} cannot be written: {error.strerror or error}; give another --out") from error
    try:
        for folder in (out, out / "cells"):
            remove_leftovers(folder)
        yield
    finally:
        lock.release()
