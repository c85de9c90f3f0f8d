"""Run directories: what a training leaves behind."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from packaging.version import Version
from pydantic import BaseModel, ConfigDict, TypeAdapter

import plugformer
from plugformer.errors import RunError, nearest
from plugformer.runs.files import (
    RESTORE,
    read_file,
    read_json,
    remove_leftovers,
    replacing,
    temporary_name,
    write_json,
    write_text,
)


class _Record(BaseModel):
    """A mapping; keys that a later version may add are passed over."""

    model_config = ConfigDict(strict=True, extra="ignore")


class _LockedComponent(_Record):
    distribution: str
    version: str
    source: str


class _Lock(_Record):
    versions: dict[str, str]
    components: dict[str, _LockedComponent]
    hooks: dict[str, _LockedComponent] = {}
    data: dict[str, str]
    changes: list[str] = []
    environment: dict[str, Any] = {}


class _Score(_Record):
    value: float
    low: float
    high: float


class _Scores(_Record):
    metrics: dict[str, _Score]


class _Progress(_Record):
    seconds: float


class _State(_Record):
    progress: _Progress


_LOCK = TypeAdapter(_Lock)
_EVALUATIONS = TypeAdapter(dict[str, _Scores])
_STATE = TypeAdapter(_State)


class RunDirectory:
    """The files of a run, by name. Nothing in it is ever unpickled or executed.

    Attributes:
        path: The directory.
        task: The task, fully resolved.
        model: The best parameters so far; at the end their average, if the task asks for one.
        initial: Initial values that came from another run, if the task says so.
        metrics: What was measured while training, a line of JSON for each time.
        checkpoints: What training resumes from.
        averaging_checkpoints: The parameters that will be averaged; gone when the training has ended.
        learned: What the task's type has learned, such as the names of the classes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.task = path / "task.yaml"
        self.model = path / "model.safetensors"
        self.initial = path / "initial.safetensors"
        self.metrics = path / "metrics.jsonl"
        self.checkpoints = path / "checkpoints"
        self.averaging_checkpoints = path / "candidates"
        self.learned = path / "learned.json"

    @classmethod
    @contextmanager
    def making(cls, path: Path) -> Iterator["RunDirectory"]:
        """Yields a new directory under a temporary name; with its first files in it, it takes its own.

        Whoever kills the process leaves a run that can be resumed, or none.

        Raises:
            RunError: It exists already, or cannot be made.
        """
        cls.require_possible(path)
        try:
            with replacing(path) as temporary:
                run = cls(temporary)
                run.checkpoints.mkdir(parents=True)
                yield run
        except RunError as error:
            cls.require_possible(path)  # says it if somebody else has made the same meanwhile
            if isinstance(reason := error.__cause__, OSError):  # its words are those of a run that exists
                words = reason.strerror or reason
                raise RunError(f"{path} cannot be made: {words}; make room, or give another --out") from error
            raise
        # No sooner: of those who make the same one has won now, and the others, who may still write, cannot.
        with suppress(RunError):
            remove_leftovers(path.parent, path.name)

    def remove_if_begun_only(self) -> None:
        """Removes the directory if nothing has been saved or measured: it would only occupy its name."""
        if not self.metrics.exists() and not any(self.checkpoints.glob("step-*")):
            shutil.rmtree(self.path, ignore_errors=True)

    @staticmethod
    def require_possible(path: Path) -> None:
        """Makes sure that a run can be written to `path`, and leaves nothing there.

        Raises:
            RunError: As `making` does.
        """
        try:
            str(path).encode()
        except UnicodeEncodeError:  # libraries that write files in it would fail at the end of the training
            raise RunError(f"{str(path)!r} is not UTF-8: give another --out") from None
        if os.path.lexists(path):
            raise RunError(
                f"{path} exists already and is never overwritten: give another --out, "
                f"or go on with `plugformer train --resume --out {path}`"
            )
        attempt = temporary_name(path)  # under its own name it would be in the way of whoever is killed here
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
        version = run.lock()["versions"].get("plugformer", plugformer.__version__)
        try:
            newer = Version(version) > Version(plugformer.__version__)
        except ValueError as error:
            raise RunError(f"{path / 'lock.json'} is damaged: {error}; {RESTORE}") from error
        if newer:
            raise RunError(
                f"{path} was written by Plugformer {version}, newer than this {plugformer.__version__}: "
                f"install {version} or newer"
            )
        return run

    def lock(self) -> dict[str, Any]:
        """What the run is made of: `versions`, `components` and `data`.

        Raises:
            RunError: The file is missing or damaged.
        """
        path = self.path / "lock.json"
        lock: dict[str, Any] = read_json(path, _LOCK)
        return lock

    def write_task(self, text: str) -> None:
        """Writes the resolved task."""
        write_text(self.task, text)

    def write_lock(self, lock: dict[str, Any]) -> None:
        """Writes what the run is made of."""
        write_json(self.path / "lock.json", lock)

    def write_evaluation(self, split: str, report: dict[str, Any]) -> None:
        """Adds a split's final evaluation to `evaluation.json`.

        Raises:
            RunError: The file is damaged, or cannot be written.
        """
        write_json(self.path / "evaluation.json", {**self.evaluations(), split: report})

    def evaluations(self) -> dict[str, Any]:
        """Returns the final evaluations by split; none if the run has not ended.

        Raises:
            RunError: The file is damaged.
        """
        path = self.path / "evaluation.json"
        return read_json(path, _EVALUATIONS) if path.exists() else {}

    def write_self_check(self, record: dict[str, Any]) -> None:
        """Writes what the model's self-check found."""
        write_json(self.path / "self_check.json", record)

    def remove_leftovers(self) -> None:
        """Removes what killed processes left under temporary names.

        Raises:
            RunError: Something cannot be removed.
        """
        for folder in (self.path, self.checkpoints, self.averaging_checkpoints):
            remove_leftovers(folder)

    def rewind_log(self, step: int) -> None:
        """Removes the lines of `metrics.jsonl` about updates after `step`, which are made again.

        A crash may have left half a line at the end, or that of an average that is made again; they go, too,
        as does what is no line of ours.
        """
        if self.metrics.exists():
            stale = ["average"] if self.averaging_checkpoints.exists() else []
            kept = [
                f"{line}\n"
                for line, record in self._log()
                if record["step"] <= step and record.get("event") not in stale
            ]
            write_text(self.metrics, "".join(kept))

    def logged(self) -> list[dict[str, Any]]:
        """Returns the lines of `metrics.jsonl`; what is no line of ours is passed over.

        Raises:
            RunError: The file is missing or cannot be read.
        """
        return [record for _, record in self._log()]

    def _log(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yields the lines of `metrics.jsonl` that are ours, each with its record."""
        *lines, _ = read_file(self.metrics).decode(errors="replace").split("\n")  # half a line may come last
        for line in lines:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict) and isinstance(record.get("step"), int):
                yield line, record

    def seconds(self) -> float:
        """Returns the wall time of all updates up to the newest checkpoint.

        Raises:
            RunError: It is missing or damaged.
        """
        newest = max(self.checkpoints.glob("step-*"), default=self.checkpoints / "step-00000000")
        return float(read_json(newest / "state.json", _STATE)["progress"]["seconds"])

    def log(self, record: dict[str, Any]) -> None:
        """Appends a line to `metrics.jsonl`.

        Raises:
            RunError: The disk is full or the place cannot be written.
        """
        try:
            with self.metrics.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
        except OSError as error:
            raise RunError(
                f"{self.metrics} cannot be written: {error.strerror or error}; "
                "make room, then go on with --resume"
            ) from error
