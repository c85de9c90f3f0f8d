"""The cache of each user, and folders that are removed at the end of a process."""

import atexit
import os
import shutil
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_cache_path

from plugformer.errors import ConfigurationError


def cache_folder() -> Path:
    """Returns `PLUGFORMER_CACHE`, or else what this platform has for files that programs can make again."""
    if given := os.environ.get("PLUGFORMER_CACHE"):
        try:
            return Path(given).expanduser().absolute()
        except RuntimeError as error:
            raise ConfigurationError(f"PLUGFORMER_CACHE={given}: {error}; write the path out") from error
    return user_cache_path("plugformer", appauthor=False)


if TYPE_CHECKING:
    from filelock import FileLock

_SCRATCH = "scratch-"
_LOCK = ".lock"

UNUSED_DAYS = 30
"""Days after which an unused file is removed, when a new one is stored."""


def remove_unused(folder: Path) -> None:
    """Removes the members of a folder of the cache that nobody has used for UNUSED_DAYS."""
    oldest = time.time() - UNUSED_DAYS * 24 * 60 * 60
    for member in folder.iterdir():
        with suppress(OSError):  # another process may be removing it
            if member.stat().st_mtime < oldest:
                shutil.rmtree(member) if member.is_dir() else member.unlink()


def scratch_folder(place: str) -> Path:
    """Returns a folder that is removed when this process ends; removes those of killed processes first.

    The folder is in the given folder of the cache, so that its files can be renamed into their final place.
    It is a temporary folder of the system if the cache cannot be written.
    """
    folder = _scratch_folder(cache_folder() / place, os.getpid())
    folder.mkdir(parents=True, exist_ok=True)  # somebody may have emptied the cache meanwhile
    return folder


@cache
def _scratch_folder(parent: Path, process: int) -> Path:
    try:
        parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(parent)
        folder = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=parent))
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="plugformer-"))
    lock = _lock(folder)
    with suppress(OSError, NotImplementedError):  # then it stays if this process is killed
        lock.acquire()
    atexit.register(_remove, folder, process, lock)
    return folder


def _remove_abandoned(parent: Path) -> None:
    """Removes the scratch folders whose process has ended without removing them: nobody holds their locks."""
    for folder in parent.glob(f"{_SCRATCH}*"):
        if (folder / _LOCK).exists():
            with suppress(OSError, NotImplementedError), _lock(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _lock(folder: Path) -> "FileLock":
    from filelock import FileLock  # it takes a while to import, and most commands need no scratch folder

    return FileLock(folder / _LOCK, timeout=0)  # Timeout is an OSError


def _remove(folder: Path, process: int, lock: "FileLock") -> None:
    if os.getpid() == process:  # a forked process leaves its parent's folder alone
        lock.release()
        shutil.rmtree(folder, ignore_errors=True)
