"""Experiment trackers log a run: each line of `metrics.jsonl` once, and the final metrics."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

from pydantic import Field

from plugformer.distributed import Processes
from plugformer.errors import described
from plugformer.hooks import Run, hookimpl
from plugformer.interfaces import Callback
from plugformer.runs import RunDirectory
from plugformer_plugins.callback.trackers import TRACKERS, Name, Tracker, require

_LOG = logging.getLogger(__name__)
_FINAL = "final"


class Track(Callback):
    """Logs the settings, the lines of `metrics.jsonl` and the final metrics to experiment trackers.

    Each by its own library, in the main process alone. A tracker that fails is left out with a warning.
    `tracking.json` in the run keeps the identifiers of the trackers' runs: a resumed training continues them.
    See https://docs.pytorch.org/docs/stable/tensorboard.html.

    Args:
        to: The trackers. Weights & Biases works offline unless `WANDB_MODE` says otherwise, and MLflow with
            files unless `MLFLOW_TRACKING_URI` names a server or a database.
        project: The project or experiment that has the trackers' runs.
        directory: Folder of their files; `tracking`, next to the run, if None.
    """

    def __init__(
        self,
        *,
        to: Annotated[list[Name], Field(min_length=1)],
        project: str = "plugformer",
        directory: Path | None = None,
    ) -> None:
        self.to = to
        self.project = project
        self.directory = directory
        self._tracked: TrackedRun | None = None

    @hookimpl
    def model_built(self) -> None:
        """Raises ConfigurationError if the library of a tracker is not installed."""
        for name in self.to:
            require(name)

    @hookimpl
    def run_started(self, run: Run) -> None:
        """Starts the trackers, or continues their runs."""
        if Processes.join().main:
            self._tracked = TrackedRun(
                RunDirectory(run.directory),
                run.task.model_dump(mode="json", exclude_none=True),
                self.to,
                self.project,
                self.directory or run.directory.absolute().parent / "tracking",
                run.directory / "tracking.json",
            )
            self._tracked.send()

    @hookimpl
    def step_ended(self) -> None:
        """Sends what was logged."""
        if self._tracked is not None:
            self._tracked.send()

    evaluation_ended = average_evaluated = step_ended

    @hookimpl
    def run_evaluated(self) -> None:
        """Sends the final metrics, and ends the trackers."""
        if self._tracked is not None:
            self._tracked.send_evaluations()
            self._tracked.finish()

    @hookimpl
    def run_failed(self) -> None:
        """Ends the trackers."""
        if self._tracked is not None:
            self._tracked.send()
            self._tracked.finish()


class TrackedRun:
    """Trackers that follow a run. One that fails is left out, with a warning; nothing is raised.

    The file `memory` keeps the identifiers of the trackers' runs and how far each has come, so that the next
    call continues them. Steps that a resumed training repeats are not logged again.

    Args:
        run: The run.
        settings: Its task in values of JSON.
        names: The trackers.
        project: The project or experiment that has the trackers' runs.
        directory: Folder of the trackers' files.
        memory: A JSON file, which need not exist.
    """

    def __init__(
        self,
        run: RunDirectory,
        settings: Mapping[str, Any],
        names: Sequence[Name],
        project: str,
        directory: Path,
        memory: Path,
    ) -> None:
        self._run = run
        self._memory = memory
        self._read = 0
        self._known: dict[str, Any] = {"name": f"{run.path.absolute().name}-{uuid4().hex[:8]}"}
        self._open: dict[Name, Tracker] = {}
        with suppress(OSError, ValueError):  # it does not exist yet, or is damaged
            self._known |= json.loads(memory.read_text(encoding="utf-8"))
        for name in dict.fromkeys(names):
            self._attempt(name, partial(self._start, name, settings, project, directory))
        self._save()

    def send(self) -> None:
        """Sends what was logged since the last call."""
        if not self._open or not self._run.metrics.exists():
            return
        with self._run.metrics.open("rb") as file:
            file.seek(self._read)
            complete = file.read().rpartition(b"\n")[0]
        if complete:
            self._read += len(complete) + 1
            for record in map(json.loads, complete.splitlines()):
                event = record["event"]
                values = {f"{event}/{key}": value for key, value in numbers(record) if key not in _PLACES}
                self._log(event, values, record["step"])
            self._save()

    def send_evaluations(self) -> None:
        """Sends the final metrics, with the ends of their intervals."""
        values = {
            f"{split}/{name}{end}": score[key]
            for split, report in self._run.evaluations().items()
            for name, score in report["metrics"].items()
            for key, end in (("value", ""), ("low", "_low"), ("high", "_high"))
        }
        steps = [record["step"] for record in self._run.logged()] if self._run.metrics.exists() else []
        if values:
            self._log(_FINAL, values, max(steps, default=0))
            self._save()

    def finish(self) -> None:
        """Ends the trackers."""
        for name, tracker in list(self._open.items()):
            self._attempt(name, tracker.finish)
        self._open.clear()

    def _start(self, name: Name, settings: Mapping[str, Any], project: str, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        begun = self._known.get(name)
        run, logged = (begun["run"], begun["told"]) if begun else (None, {})
        tracker = TRACKERS[name](self._known["name"], project, directory, run, dict(flat(settings)))
        self._open[name] = tracker
        self._known[name] = {"run": tracker.identifier, "told": logged}

    def _log(self, event: str, values: Mapping[str, float], step: int) -> None:
        for name, tracker in list(self._open.items()):
            logged = self._known[name]["told"]
            if step > logged.get(event, -1) and self._attempt(name, partial(tracker.log, values, step)):
                logged[event] = step

    def _attempt(self, name: Name, action: Callable[[], object]) -> bool:
        """Calls a tracker, and returns whether it went well; otherwise it is left out from then on."""
        try:
            action()
            return True
        except (Exception, SystemExit) as error:
            self._open.pop(name, None)
            _LOG.warning(
                "the tracker %s is switched off: %s; `plugformer track %s --to %s` sends it later",
                *(name, described(error), self._run.path, name),
            )
            return False

    def _save(self) -> None:
        with suppress(OSError):  # the next training would send some steps again
            self._memory.parent.mkdir(parents=True, exist_ok=True)
            self._memory.write_text(json.dumps(self._known, indent=2) + "\n", encoding="utf-8")


_PLACES = frozenset({"step", "epoch", "seconds"})
"""What a line of the log has besides measured values."""


def numbers(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yields the numbers in a record, those of nested mappings with a path like `learning_rates/head`."""
    for key, value in record.items():
        if isinstance(value, Mapping):
            yield from numbers(value, f"{prefix}{key}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield prefix + key, value


def flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str | float]]:
    """Yields settings by their dotted path, as `--set` names them; lists and null as JSON."""
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield (
                f"{prefix}{key}",
                value if isinstance(value, bool | int | float | str) else json.dumps(value),
            )
