"""Where to compute: the devices that this machine has, by PyTorch's names."""

import os

import torch

from plugformer.errors import ConfigurationError

_CHOSEN = "ACCELERATE_TORCH_DEVICE"
"""The variable that Accelerate reads the device from."""


def best_device() -> torch.device:
    """Returns the GPU of this machine, CUDA's before another one; the CPU if there is none."""
    return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")


def chosen_device(name: str | torch.device | None = None) -> torch.device:
    """Returns the device of a name.

    Args:
        name: As PyTorch names it: `cpu`, `cuda`, `cuda:1`, `mps`; the best one if None.

    Raises:
        ConfigurationError: There is no such device.
    """
    if name is None:
        return best_device()
    best = best_device()
    count = 1 if best.type == "cpu" else torch.accelerator.device_count()
    try:
        device = torch.device(name)
    except RuntimeError:  # no type of device has this name
        device = None
    if device is None or (
        device.type != "cpu" and (device.type != best.type or (device.index or 0) >= count)
    ):
        known = "cpu" if best.type == "cpu" else f"cpu and {best.type}:0 to {best.type}:{count - 1}"
        raise ConfigurationError(f"this machine has no device {str(name)!r}; it has {known}")
    return device


def use_device(name: str | torch.device | None) -> None:
    """Makes Accelerate train on a device from now on; on the best one, or the launcher's, if None.

    Raises:
        ConfigurationError: There is no such device, or a launcher has started several processes.
    """
    if name is None and _CHOSEN not in os.environ:
        return
    if name is not None and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigurationError(f"device {str(name)!r}: the launcher chooses the device of each process")
    os.environ.pop(_CHOSEN, None)
    if name is not None:
        os.environ[_CHOSEN] = str(chosen_device(name))
    from accelerate.state import AcceleratorState  # for which `predict` need not wait

    AcceleratorState._reset_state(reset_partial_state=True)
