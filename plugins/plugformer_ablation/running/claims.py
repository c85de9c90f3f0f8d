"""Claims: which process trains which cell of a folder that several share, by files beside the cells.

Nothing else is shared: no scheduler, no server, and no lock, which some network file systems do not have.
"""

import json
import os
import platform
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from plugformer_ablation.judging.results import RESULT, Record, read_if_there

HEARTBEAT = 15.0
"""Seconds between two signs of life of who trains a cell."""

STALE = 180.0
"""Seconds without one after which a cell is lost. Clients of NFS see times that are up to 60 s old."""


def attempts(folder: Path) -> list[Path]:
    """Returns the files of all attempts at a cell, `NAME.claim-1` first.

    An attempt makes the file of the next number, which only one process can; none is removed before the cell
    is settled. Thus nobody who is slow takes over from a process that has begun meanwhile.
    """
    found: list[Path] = []
    while (path := _file(folder, len(found) + 1)).exists():
        found.append(path)
    return found


def state_of(folder: Path) -> tuple[str, Record]:
    """Returns whether a cell is `done`, `failed`, `running`, `lost` or `waiting`, with the last claim.

    A record has the `host`, the `process`, `since` when, the `step` of `steps` and the `silent_seconds`; also
    `failure`, or `released` if the cell was left to others. A lost cell is one whose process ended without a
    word.
    """
    if (folder / RESULT).is_file():
        return "done", {}
    return _state(attempts(folder))


def _state(files: Sequence[Path]) -> tuple[str, Record]:
    if not files:
        return "waiting", {}
    record = read_if_there(files[-1])
    if "failure" in record or record.get("released"):
        return "failed" if "failure" in record else "waiting", record
    with suppress(FileNotFoundError):
        record["silent_seconds"] = time.monotonic() + _clock(files[-1].parent) - files[-1].stat().st_mtime
    lost = record.get("silent_seconds", 0) > STALE
    return "lost" if lost or _has_ended(record) else "running", record


def take(folder: Path) -> "Claim | None":
    """Claims a cell; None if another process trains it, or it is settled."""
    known = attempts(folder)
    if _state(known)[0] in ("running", "failed"):
        return None
    path = _file(folder, len(known) + 1)  # not of what may be there by now
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return None
    claim = Claim(folder, path)
    if (folder / RESULT).is_file():  # by who has removed the claims that would have said so
        claim.settle()
        return None
    return claim


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Inside, no other process does the same; waits for its turn."""
    while (claim := take(folder)) is None:
        time.sleep(1.0)
    try:
        with claim:
            yield
    finally:
        claim.settle()


class Claim:
    """A claim of this process; inside the context, a thread gives signs of life.

    Attributes:
        superseded: Whether another process has taken the cell over, because this one gave no signs.
        hopeless: Whether the last two processes were lost before any new checkpoint.
    """

    def __init__(self, folder: Path, path: Path) -> None:
        self._folder, self._path, self._ended = folder, path, threading.Event()
        self.superseded = False
        checkpoint = max((path.name for path in folder.glob("checkpoints/step-*")), default="")
        before = [_state([file]) for file in attempts(folder)[-3:-1]]
        self.hopeless = [(state, it.get("checkpoint")) for state, it in before] == [("lost", checkpoint)] * 2
        self._record = {"host": platform.node(), "process": os.getpid(), "machine": _machine()}
        self._record |= {"since": time.strftime("%Y-%m-%d %H:%M:%S %z"), "checkpoint": checkpoint}
        self.note()

    def __enter__(self) -> "Claim":
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def advance(self, step: int, steps: int) -> None:
        """Notes how far the training is, for the next sign of life."""
        self._record |= {"step": step, "steps": steps}

    def note(self, **facts: Any) -> None:
        """Records facts, unless another process has the cell; `released` or a `failure` ends a claim."""
        self._record |= facts
        with suppress(OSError):  # a file system that is away for a moment
            self.superseded = attempts(self._folder)[-1:] != [self._path]
            if not self.superseded:
                temporary = self._path.with_name(f".{self._path.name}")
                temporary.write_text(json.dumps(self._record))
                temporary.replace(self._path)

    def settle(self) -> None:
        """Removes all claims of the cell, which has a result, or may be tried again at once."""
        for path in attempts(self._folder):
            path.unlink(missing_ok=True)

    def _beat(self) -> None:
        while not self._ended.wait(HEARTBEAT) and not self.superseded:
            self.note()


def _file(folder: Path, number: int) -> Path:
    return folder.with_name(f"{folder.name}.claim-{number}")


@cache
def _clock(folder: Path) -> float:
    """Returns how far the clock of a file system is ahead of this process's monotonic one.

    Times of files are those of the machine that has the disk, and clocks of machines differ.
    """
    path, now = folder / f".clock-{uuid4().hex[:8]}", time.time()
    with suppress(OSError):  # who only reads has no other clock
        path.touch()
        now = path.stat().st_mtime
        path.unlink()
    return now - time.monotonic()


@cache
def _machine() -> str:
    """Returns where process numbers mean the same: a boot of a machine, and in it a container."""
    parts: list[Any] = [platform.node()]
    with suppress(OSError):  # Linux alone
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(Path("/proc/self/ns/pid").stat().st_ino)
    return " ".join(map(str, parts))


def _has_ended(record: Record) -> bool:
    """Returns whether the process of a claim is known to have ended, because it ran here."""
    if record.get("machine") != _machine():
        return False
    try:
        os.kill(record["process"], 0)
    except OSError as error:
        return isinstance(error, ProcessLookupError)  # or it is another user's
    return False
