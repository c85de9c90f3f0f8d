"""Where a training computes: noted beside what it is made of, for people; nothing is compared with it."""

import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

LIBRARIES = ("accelerate", "datasets", "numpy", "pyarrow", "safetensors", "tokenizers")
"""What computes beside torch, whose version stands among those that are compared."""


def environment(device: torch.device, processes: int, precision: str) -> dict[str, Any]:
    """Returns device, threads, precision, versions of what computes, system and processor.

    Args:
        device: Of this process.
        processes: How many train together.
        precision: As `training.precision` names it.
    """
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "processes": processes,
        "threads": torch.get_num_threads(),
        "precision": precision,
        "versions": {name: metadata.version(name) for name in LIBRARIES},
        "system": platform.platform(),
        "processor": _processor(),
    }


def _processor() -> str:
    """Returns the processor's name as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # it is Linux that has this file
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
