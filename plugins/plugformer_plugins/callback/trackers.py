"""Experiment trackers: TensorBoard, Weights & Biases and MLflow, each through its own library."""

import os
import time
from collections.abc import Mapping
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
    """A run of a tracker, which is new or continued.

    Args:
        run: Name of a new run.
        project: The project or experiment that has it.
        directory: Folder of the tracker's files.
        begun: Identifier of a run to continue; None for a new one.
        settings: What a new run begins with: numbers, flags and texts by name.

    Attributes:
        identifier: By which it is continued.
    """

    identifier: str

    def __init__(
        self, run: str, project: str, directory: Path, begun: str | None, settings: Mapping[str, Any]
    ) -> None: ...

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Sends what was measured after an update."""

    def finish(self) -> None:
        """Writes all of it, and ends."""


class _TensorBoard(Tracker):
    """Event files: https://docs.pytorch.org/docs/stable/tensorboard.html."""

    def __init__(
        self, run: str, project: str, directory: Path, begun: str | None, settings: Mapping[str, Any]
    ) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.identifier = begun or run
        self._writer = SummaryWriter(directory / "tensorboard" / project / self.identifier)
        if begun is None:
            self._writer.add_hparams(dict(settings), metric_dict={}, run_name="settings")

    def log(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def finish(self) -> None:
        self._writer.close()


class _WeightsAndBiases(Tracker):
    """A run without a copy of the console, the code and the machine: https://docs.wandb.ai/ref/python."""

    def __init__(
        self, run: str, project: str, directory: Path, begun: str | None, settings: Mapping[str, Any]
    ) -> None:
        import wandb

        quiet = {"console": "off", "silent": True, "x_disable_meta": True, "x_disable_stats": True}
        self.identifier = begun or run
        self._run = wandb.init(
            project=project,
            dir=str(directory),
            mode=os.environ.get("WANDB_MODE", "offline"),  # type: ignore[arg-type]  # wandb checks it
            id=self.identifier,
            name=self.identifier,
            resume="allow",
            config=dict(settings) if begun is None else None,
            settings=wandb.Settings(disable_git=True, save_code=False, **quiet),
        )

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def finish(self) -> None:
        import wandb

        self._run.finish()
        wandb.teardown()  # ends the process that it has started


class _MLflow(Tracker):
    """A run in a store of files, or in the one that the user has chosen: https://mlflow.org/docs."""

    def __init__(
        self, run: str, project: str, directory: Path, begun: str | None, settings: Mapping[str, Any]
    ) -> None:
        from mlflow import MlflowClient
        from mlflow.entities import Param

        store = os.environ.get("MLFLOW_TRACKING_URI") or (directory / "mlruns").absolute().as_uri()
        self._client = MlflowClient(store)
        if begun is not None:
            self.identifier = begun
            self._client.update_run(begun, "RUNNING")
            return
        known = self._client.get_experiment_by_name(project)
        experiment = self._client.create_experiment(project) if known is None else known.experiment_id
        self.identifier = self._client.create_run(experiment, run_name=run).info.run_id
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


TRACKERS: dict[Name, type[Tracker]] = {
    "mlflow": _MLflow,
    "tensorboard": _TensorBoard,
    "wandb": _WeightsAndBiases,
}
