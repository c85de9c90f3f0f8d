"""Where files are kept that can be made again: for each user, and for the life of a process."""

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

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


def scratch_folder(place: str) -> Path:
    """Returns a folder that is removed when this process ends.

    It lies in the cache, from where files can be renamed into their final place, because the system's folder
    for temporary files is often small, or memory; there it lies only where the cache cannot be written.

    Args:
        place: Folder of the cache.
    """
    folder = _scratch_folder(cache_folder() / place, os.getpid())
    folder.mkdir(parents=True, exist_ok=True)  # somebody may have emptied the cache meanwhile
    return folder


@cache
def _scratch_folder(parent: Path, process: int) -> Path:
    try:
        parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="scratch-", dir=parent))
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="plugformer-"))
    atexit.register(_remove, folder, process)
    return folder


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # a forked process leaves its parent's folder alone
        shutil.rmtree(folder, ignore_errors=True)
