"""Run directories: the files that a training writes, and the lock by which one process trains a run."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import Any, NotRequired, cast

from filelock import FileLock, Timeout
from packaging.version import Version
from pydantic import TypeAdapter
from typing_extensions import TypedDict  # for pydantic before Python 3.12

import plugformer
from plugformer.distributed import SINGLE_PROCESS, Processes
from plugformer.errors import RunError, described, nearest
from plugformer.evaluation.report import Score
from plugformer.runs.checkpoint import TrainingProgress
from plugformer.runs.store import (
    RESTORE,
    parse_json,
    read_file,
    read_json,
    remove_leftovers,
    temporary_name,
    write_text,
)

TRAINING_LOCK = ".training.lock"
"""An empty file that stays in the run directory; the system releases its lock however the process ends."""


class _Baseline(TypedDict):
    metrics: dict[str, Score]
    unbeaten: str


class _Evaluation(TypedDict):
    metrics: dict[str, Score]
    examples: int
    unconstrained: NotRequired[dict[str, Score]]
    baselines: NotRequired[dict[str, _Baseline]]


class _Answer(TypedDict):
    input: dict[str, Any]
    output: Any
    score: float | None


class _SelfCheckRecord(TypedDict):
    passed: bool
    answers: NotRequired[list[_Answer]]


class _Logged(TypedDict):
    event: str
    step: int


class _State(TypedDict):
    progress: TrainingProgress


EVALUATIONS = TypeAdapter(dict[str, _Evaluation])
SELF_CHECK = TypeAdapter(_SelfCheckRecord)
LOGGED = TypeAdapter(_Logged)
STATE = TypeAdapter(_State)
"""What records hold, as far as anything reads it; one that is damaged is refused by its name."""


class RunDirectory:
    """The files of a run, by name. Nothing in it is ever unpickled or executed.

    Attributes:
        path: The directory.
        task: The task, fully resolved.
        lockfile: What the run was made of: versions, hashes of components, data and files.
        model: The best parameters so far; at the end their average, if a callback makes one.
        metrics: The log of the training, one JSON object a line.
        checkpoints: The checkpoints that training resumes from.
        learned: State that the task's type has learned, such as the names of the classes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.task = path / "task.yaml"
        self.lockfile = path / "lock.json"
        self.model = path / "model.safetensors"
        self.metrics = path / "metrics.jsonl"
        self.checkpoints = path / "checkpoints"
        self.learned = path / "learned.json"

    def remove_if_begun_only(self) -> None:
        """Removes the directory if nothing has been saved or measured."""
        if not self.metrics.exists() and not any(self.checkpoints.glob("step-*")):
            shutil.rmtree(self.path, ignore_errors=True)

    @staticmethod
    def require_possible(path: Path) -> None:
        """Raises RunError if a run cannot be written to `path`; leaves nothing there."""
        if os.path.lexists(path):
            raise RunError(
                f"{path} exists already and is never overwritten: give another --out, "
                f"or resume with `plugformer train --resume --out {quote(str(path))}`"
            )
        attempt = temporary_name(path)
        try:
            attempt.mkdir(parents=True)
            attempt.rmdir()
        except OSError as error:
            raise RunError(f"{path} cannot be made: {error.strerror or error}; give another --out") from error

    @classmethod
    def open(cls, path: Path) -> "RunDirectory":
        """Opens an existing directory.

        Raises:
            RunError: It is no run directory, or comes from a newer version of Plugformer.
        """
        if not path.is_dir():
            known = [folder.name for folder in path.parent.glob("*/") if (folder / "task.yaml").exists()]
            raise RunError(f"no run directory {path}{nearest(path.name, known)}")
        if not (path / "task.yaml").is_file():
            raise RunError(f"{path} is not a run directory: it has no task.yaml")
        run = cls(path)
        try:
            version = Version(run.read_lockfile()["versions"]["plugformer"])
        except (LookupError, TypeError, ValueError) as error:
            raise RunError(f"{run.lockfile} is damaged: {described(error)}; {RESTORE}") from error
        if version > Version(plugformer.__version__):
            newer = f"{path} was written by Plugformer {version}, newer than this {plugformer.__version__}"
            raise RunError(f"{newer}: install {version} or newer")
        return run

    def read_lockfile(self) -> dict[str, Any]:
        """Returns the content of `lock.json`; raises RunError if the file is damaged."""
        return cast("dict[str, Any]", read_json(self.lockfile))

    def evaluations(self) -> dict[str, Any]:
        """Returns the final evaluations by split; none if the run has not ended."""
        path = self.path / "evaluation.json"
        return read_json(path, EVALUATIONS) if path.exists() else {}

    def self_check(self) -> dict[str, Any]:
        """Returns the self-check, with the recorded `answers`; nothing if the run has not ended."""
        path = self.path / "self_check.json"
        return read_json(path, SELF_CHECK) if path.exists() else {}

    def rewind(self, step: int) -> None:
        """Removes temporary files of killed processes, and lines of the log that are written again.

        These are about updates after `step` and about the average; a crash may have left half a line.
        """
        for folder in (self.path, self.checkpoints):
            remove_leftovers(folder)
        if self.metrics.exists():
            kept = [
                f"{json.dumps(record, ensure_ascii=False)}\n"
                for record in self.logged()
                if record["step"] <= step and record.get("event") != "average"
            ]
            write_text(self.metrics, "".join(kept))

    def logged(self) -> list[dict[str, Any]]:
        """Returns the records in `metrics.jsonl`; half a line that a crash has left is ignored."""
        lines = read_file(self.metrics).decode(errors="replace").split("\n")
        return [parse_json(self.metrics, line, LOGGED) for line in lines[:-1]]

    def progress(self) -> TrainingProgress:
        """Returns how far the training had come at the newest checkpoint; nowhere if there is none."""
        if (newest := max(self.checkpoints.glob("step-*"), default=None)) is None:
            return TrainingProgress()
        return TrainingProgress(**read_json(newest / "state.json", STATE)["progress"])

    def log(self, record: dict[str, Any]) -> None:
        """Appends a line to `metrics.jsonl`; raises RunError if the disk is full or cannot be written."""
        try:
            with self.metrics.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
        except OSError as error:
            words = f"{error.strerror or error}; make room, then resume with --resume"
            raise RunError(f"{self.metrics} cannot be written: {words}") from error


def located(run: Path | str) -> Path:
    """Returns a run's directory; `hub:NAME` or `hub:NAME@REVISION` is downloaded into a cache.

    Raises:
        RunError: The Hub has no such repository, revision or run, refuses access, or cannot be reached.
    """
    name, _, revision = str(run).removeprefix("hub:").partition("@")
    if not str(run).startswith("hub:"):
        return Path(run)
    from huggingface_hub import errors, snapshot_download

    safe = ["*.json", "*.jsonl", "*.md", "*.safetensors", "*.yaml"]  # nothing in these is executed
    try:
        folder = snapshot_download(
            name, revision=revision or None, allow_patterns=safe, ignore_patterns="checkpoints/*"
        )
    except (OSError, errors.HFValidationError) as error:
        reasons = {
            errors.HFValidationError: "that is no name of a repository: write hub:OWNER/NAME",
            errors.RevisionNotFoundError: f"{name} has no revision {revision!r}",
            errors.RepositoryNotFoundError: "no such repository, or it is private: log in, or set HF_TOKEN",
            OSError: f"the Hub cannot be reached, and the run is not in the cache: {described(error)}",
        }
        reason = next(reasons[kind] for kind in reasons if isinstance(error, kind))
        raise RunError(f"{run}: {reason}") from error
    if not Path(folder, "task.yaml").is_file():
        raise RunError(f"{run} is not a run: the repository has no task.yaml")
    return Path(folder)


@contextmanager
def training_lock(run: Path, processes: Processes = SINGLE_PROCESS) -> Iterator[None]:
    """Keeps other processes from training a run; reading it stays possible. The main process holds the lock.

    Raises:
        RunError: Another process trains it, or the directory cannot be written.
    """
    lock = FileLock(run / TRAINING_LOCK, timeout=0)

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


def is_being_trained(run: Path) -> bool:
    """Returns whether a process holds the lock of a run; False where files cannot be locked."""
    if not (run / TRAINING_LOCK).exists():
        return False
    try:
        with FileLock(run / TRAINING_LOCK, timeout=0):
            return False
    except (NotImplementedError, OSError) as error:
        return isinstance(error, Timeout)
