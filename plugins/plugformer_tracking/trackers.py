"""The trackers by name: each begins a run of its own by its own library, or continues it."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from plugformer.errors import needing

Name = Literal["mlflow", "tensorboard", "wandb"]
"""The name of a tracker, which is also that of the extra to install."""


def require(name: Name) -> None:
    """Raises ConfigurationError if the library of a tracker is not installed."""
    for variable, value in {  # no reports to their makers, unless the user has decided otherwise
        "MLFLOW_ALLOW_FILE_STORE": "true",  # its other local store needs SQLAlchemy
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "WANDB_ERROR_REPORTING": "false",
    }.items():
        os.environ.setdefault(variable, value)
    with needing(name, f"the tracker {name}"):
        if name == "tensorboard":
            from torch.utils import tensorboard  # noqa: F401
        else:
            __import__(name)


class Tracker(Protocol):
    """A run of a tracker.

    Attributes:
        identifier: By which it is continued.
    """

    identifier: str

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Tells the settings: numbers, flags and texts by name."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Tells what was measured after an update."""

    def finish(self) -> None:
        """Writes all of it, and ends."""


class _TensorBoard:
    """Event files: https://docs.pytorch.org/docs/stable/tensorboard.html."""

    def __init__(self, run: str, project: str, directory: Path, begun: str | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.identifier = begun or run
        self._writer = SummaryWriter(directory / "tensorboard" / project / self.identifier)

    def configure(self, settings: Mapping[str, Any]) -> None:
        self._writer.add_hparams(dict(settings), metric_dict={}, run_name="settings")

    def log(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def finish(self) -> None:
        self._writer.close()


class _WeightsAndBiases:
    """A run without a copy of the console, the code and the machine: https://docs.wandb.ai/ref/python."""

    def __init__(self, run: str, project: str, directory: Path, begun: str | None) -> None:
        import wandb

        quiet = {"console": "off", "silent": True, "x_disable_meta": True, "x_disable_stats": True}
        settings = wandb.Settings(disable_git=True, save_code=False, **quiet)
        self.identifier = begun or run
        self._run = wandb.init(
            project=project,
            dir=str(directory),
            mode=os.environ.get("WANDB_MODE", "offline"),  # type: ignore[arg-type]  # wandb checks it
            id=self.identifier,
            name=self.identifier,
            resume="allow",
            settings=settings,
        )

    def configure(self, settings: Mapping[str, Any]) -> None:
        self._run.config.update(dict(settings), allow_val_change=True)

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def finish(self) -> None:
        import wandb

        self._run.finish()
        wandb.teardown()  # ends the process that it has started


class _MLflow:
    """A run in a store of files, or in the one that the user has chosen: https://mlflow.org/docs."""

    def __init__(self, run: str, project: str, directory: Path, begun: str | None) -> None:
        from mlflow import MlflowClient

        store = os.environ.get("MLFLOW_TRACKING_URI") or (directory / "mlruns").absolute().as_uri()
        self._client = MlflowClient(store)
        if begun is None:
            experiment = self._client.get_experiment_by_name(project)
            place = (
                self._client.create_experiment(project) if experiment is None else experiment.experiment_id
            )
            begun = self._client.create_run(place, run_name=run).info.run_id
        self.identifier = begun
        self._client.update_run(begun, "RUNNING")

    def configure(self, settings: Mapping[str, Any]) -> None:
        from mlflow.entities import Param

        parameters = [Param(name, str(value)) for name, value in settings.items()]
        for start in range(0, len(parameters), 100):  # as many as a store takes at once
            self._client.log_batch(self.identifier, params=parameters[start : start + 100])

    def log(self, values: Mapping[str, float], step: int) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [Metric(name, value, now, step) for name, value in values.items()]
        self._client.log_batch(self.identifier, metrics=metrics)

    def finish(self) -> None:
        self._client.set_terminated(self.identifier)


TRACKERS: dict[Name, Callable[[str, str, Path, str | None], Tracker]] = {
    "mlflow": _MLflow,
    "tensorboard": _TensorBoard,
    "wandb": _WeightsAndBiases,
}
"""Each is called with the name of a run, its project, a folder, and the identifier of a run to continue."""
