"""The hook that tells trackers about a training."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from plugformer.distributed import Processes
from plugformer.hooks import Run, hookimpl
from plugformer.interfaces import Hook
from plugformer.runs import RunDirectory
from plugformer_tracking.session import Session
from plugformer_tracking.trackers import Name, require


class Track(Hook):
    """Tells experiment trackers the settings, the lines of `metrics.jsonl` and the final metrics.

    Each by its own library, in the main process alone. A tracker that fails is left out with a warning.
    `tracking.json` in the run keeps the identifiers of the trackers' runs: a resumed training continues them.

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
        self._session: Session | None = None

    @hookimpl
    def model_built(self) -> None:
        """Raises ConfigurationError if the library of a tracker is not installed."""
        for name in self.to:
            require(name)

    @hookimpl
    def run_started(self, run: Run) -> None:
        """Starts the trackers, or continues their runs."""
        if Processes.join().main:
            self._session = Session(
                RunDirectory(run.directory),
                run.task.model_dump(mode="json", exclude_none=True),
                self.to,
                self.project,
                self.directory or run.directory.absolute().parent / "tracking",
                run.directory / "tracking.json",
            )
            self._session.send()

    @hookimpl
    def step_ended(self) -> None:
        """Tells what was logged."""
        if self._session is not None:
            self._session.send()

    evaluation_ended = average_evaluated = step_ended

    @hookimpl
    def run_evaluated(self) -> None:
        """Tells the final metrics, and ends the trackers."""
        if self._session is not None:
            self._session.send_evaluations()
            self._session.finish()

    @hookimpl
    def run_failed(self) -> None:
        """Ends the trackers."""
        if self._session is not None:
            self._session.send()
            self._session.finish()
