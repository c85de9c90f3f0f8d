"""Imports that wait until a name is used, and settings that must be made before torch is imported."""

import os
from collections.abc import Callable, Collection, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

VECTOR_FUNCTIONS = (
    *("acos", "asin", "atan", "cos", "erf", "erfc", "erfinv", "exp"),
    *("log", "log10", "log2", "sin", "sqrt", "tan", "tanh", "trunc"),
)
"""The functions that PyTorch's builds for x86 take from Intel's MKL."""


def limit_spinning() -> None:
    """Chooses how OpenMP's idle threads wait, unless the user has a setting; before torch is imported.

    Passive threads wake up too late for small kernels; spinning threads take the cores from other programs.
    `benchmarks/threads.py` measures the settings.
    """
    try:  # as Linux says how many threads run at this moment
        running = int(Path("/proc/loadavg").read_text(encoding="ascii").split()[3].partition("/")[0]) - 1
    except (OSError, IndexError, ValueError):
        running = 0
    if running > (os.cpu_count() or 1) / 2:
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    elif "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "20000")  # GNU: rounds, 300,000 by default
        os.environ.setdefault("KMP_BLOCKTIME", "1")  # Intel and LLVM: milliseconds, 200 by default


@cache
def warm_up_mkl() -> None:
    """Calls each function on one number, once in a process.

    If several threads make MKL's first call of a function, one of them may use another kernel, whose relative
    errors reach 1e-4: trainings would differ. https://github.com/pytorch/pytorch/issues/188792
    """
    import torch

    for dtype in (torch.float32, torch.float64):
        number = torch.full((1,), 0.5, dtype=dtype, device="cpu")
        for name in VECTOR_FUNCTIONS:
            getattr(torch, name)(number)


def lazily(modules: Mapping[str, Collection[str]]) -> Callable[[str], Any]:
    """Returns a package's `__getattr__`, which imports a name from its module when it is used."""

    def get(name: str) -> Any:
        module = next((module for module, names in modules.items() if name in names), None)
        if module is None:
            raise AttributeError(f"no attribute {name!r}", name=name)
        return getattr(import_module(module), name)

    return get
