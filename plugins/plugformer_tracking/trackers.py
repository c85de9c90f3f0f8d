"""The trackers by name: how each begins a run of its own, and continues it."""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from plugformer.errors import needing

if TYPE_CHECKING:
    from accelerate.tracking import GeneralTracker

Name = Literal["mlflow", "tensorboard", "wandb"]
"""The name of a tracker, which is also that of the extra to install."""


def require(name: Name) -> None:
    """Raises ConfigurationError if the library of a tracker is not installed."""
    with needing(name, f"the tracker {name}"):
        if name == "tensorboard":
            from torch.utils import tensorboard  # noqa: F401
        else:
            _quiet()
            __import__(name)


def start(
    name: Name, run: str, project: str, directory: Path, begun: str | None
) -> "tuple[GeneralTracker, str]":
    """Starts a tracker.

    Args:
        name: Which.
        run: Name of the tracker's run.
        project: The project or experiment that has it.
        directory: Folder of the tracker's files.
        begun: Identifier of the tracker's run if it exists, to be continued.

    Returns:
        The tracker, and the identifier of its run.
    """
    directory.mkdir(parents=True, exist_ok=True)
    _quiet()
    tracker = _TRACKERS[name](run, project, directory, begun)
    tracker.start()
    return tracker, str(tracker.tracker.info.run_id) if name == "mlflow" else run


def stop(name: Name, tracker: "GeneralTracker") -> None:
    """Ends a tracker, and the process that Weights & Biases has started."""
    tracker.finish()
    if name == "wandb":
        import wandb

        wandb.teardown()


def _tensorboard(run: str, project: str, directory: Path, _: str | None) -> "GeneralTracker":
    from accelerate.tracking import TensorBoardTracker

    return TensorBoardTracker(run, directory / "tensorboard" / project)


def _wandb(run: str, project: str, directory: Path, _: str | None) -> "GeneralTracker":
    import wandb
    from accelerate.tracking import WandBTracker

    settings = wandb.Settings(
        console="off",
        disable_git=True,
        save_code=False,
        silent=True,
        x_disable_meta=True,
        x_disable_stats=True,
    )
    mode = os.environ.get("WANDB_MODE", "offline")
    return WandBTracker(
        project, dir=str(directory), mode=mode, id=run, name=run, resume="allow", settings=settings
    )


def _mlflow(run: str, project: str, directory: Path, begun: str | None) -> "GeneralTracker":
    import mlflow
    from accelerate.tracking import MLflowTracker

    mlflow.set_tracking_uri(_chosen_store() or (directory / "mlruns").absolute().as_uri())
    return MLflowTracker(project, run_id=begun, run_name=run)


@cache
def _chosen_store() -> str | None:
    """Returns the store that the user has chosen; `set_tracking_uri` sets the same variable later."""
    return os.environ.get("MLFLOW_TRACKING_URI")


def _quiet() -> None:
    """Asks the libraries not to report to their makers, unless the user has decided otherwise."""
    for variable, value in {
        "MLFLOW_ALLOW_FILE_STORE": "true",  # its other local store needs SQLAlchemy
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "WANDB_ERROR_REPORTING": "false",
    }.items():
        os.environ.setdefault(variable, value)


_TRACKERS: "dict[str, Callable[[str, str, Path, str | None], GeneralTracker]]" = {
    "mlflow": _mlflow,
    "tensorboard": _tensorboard,
    "wandb": _wandb,
}
