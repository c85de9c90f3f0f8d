"""The cache of each user, and folders that are removed at the end of a process."""

import atexit
import os
import shutil
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

UNUSED_DAYS = 30
"""Days after which an unused file is removed, when a new one is stored."""


def cache_folder() -> Path:
    """Returns `PLUGFORMER_CACHE`, or else a folder beside the caches of PyTorch and Hugging Face.

    https://specifications.freedesktop.org/basedir-spec/latest/
    """
    if given := os.environ.get("PLUGFORMER_CACHE"):
        return Path(given).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "plugformer"


def remove_unused(folder: Path) -> None:
    """Removes the members of a folder of the cache that nobody has used for UNUSED_DAYS."""
    oldest = time.time() - UNUSED_DAYS * 24 * 60 * 60
    for member in folder.iterdir():
        with suppress(OSError):  # another process may be removing it
            if member.stat().st_mtime < oldest:
                shutil.rmtree(member) if member.is_dir() else member.unlink()


def scratch_folder(place: str) -> Path:
    """Returns a folder that is removed when this process ends.

    It is in the given folder of the cache, so that its files can be renamed into their final place; or a
    temporary folder of the system if the cache cannot be written.
    """
    folder = _scratch_folder(cache_folder() / place, os.getpid())
    folder.mkdir(parents=True, exist_ok=True)  # somebody may have emptied the cache meanwhile
    return folder


@cache
def _scratch_folder(parent: Path, process: int) -> Path:
    try:
        parent.mkdir(parents=True, exist_ok=True)
        remove_unused(parent)  # also what killed processes have left
        folder = Path(tempfile.mkdtemp(prefix="scratch-", dir=parent))
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="plugformer-"))
    atexit.register(_remove, folder, process)
    return folder


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # a forked process leaves its parent's folder alone
        shutil.rmtree(folder, ignore_errors=True)
