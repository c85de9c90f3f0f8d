"""Numbers that a training computes with, and the Accelerator that brings them about."""

import os
from typing import Any

from accelerate import Accelerator, PartialState
from accelerate.state import AcceleratorState

from plugformer.configuration.task import Training
from plugformer.distributed import launcher_settings
from plugformer.errors import ConfigurationError

_WANTED_BY_LAUNCHER = "ACCELERATE_MIXED_PRECISION"
_NONE = "no"  # what Accelerate calls float32


def precision(settings: Training) -> str:
    """Returns `float32`, or what is mixed with it: the task's choice, or else that of `accelerate launch`.

    Raises:
        ConfigurationError: It is fp16, and there is no GPU.
    """
    found = settings.precision or os.environ.get(_WANTED_BY_LAUNCHER, _NONE).lower()
    if found == "fp16" and PartialState().device.type == "cpu":
        raise ConfigurationError("training.precision: fp16 needs a GPU; choose bf16 or float32")
    return "float32" if found == _NONE else found


def accelerator(settings: Training, **options: Any) -> Accelerator:
    """Returns what knows this process's device and computes in a task's precision.

    Args:
        settings: The task's.
        **options: Of the Accelerator.
    """
    wanted = precision(settings)
    # Else the precision of an earlier training in this process would stay.
    AcceleratorState._reset_state()
    with launcher_settings():
        return Accelerator(mixed_precision=_NONE if wanted == "float32" else wanted, **options)
