"""Imports of torch that wait until it is needed, and settings that must be made before.

Importing a package costs nothing if its names are imported when they are first used.
"""

import ast
import os
import sys
from collections.abc import Callable
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

    Passive threads wake up too late for small kernels, which costs a third of the speed on an idle machine.
    Spinning threads take the cores from other programs, and training is then several times slower.
    `benchmarks/threads.py` measures the settings.
    """
    if "OMP_WAIT_POLICY" in os.environ:
        return
    if _running_threads() > (os.cpu_count() or 1) / 2:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        return
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")  # GNU: rounds, 300,000 by default
    os.environ.setdefault("KMP_BLOCKTIME", "1")  # Intel and LLVM: milliseconds, 200 by default


def _running_threads() -> int:
    """Returns how many other threads run at this moment; 0 where the system does not say it as Linux does."""
    try:
        return int(Path("/proc/loadavg").read_text(encoding="ascii").split()[3].partition("/")[0]) - 1
    except (OSError, IndexError, ValueError):
        return 0


@cache
def warm_up_mkl() -> None:
    """Calls each function on one number, once in a process.

    MKL chooses a function's kernel at its first call. If several threads make that call at the same time, one
    of them may use another kernel, whose relative errors reach 1e-4: trainings with the same seed would
    differ. https://github.com/pytorch/pytorch/issues/188792
    """
    import torch  # `limit_spinning` must be called before

    for dtype in (torch.float32, torch.float64):
        number = torch.full((1,), 0.5, dtype=dtype, device="cpu")
        for name in VECTOR_FUNCTIONS:
            getattr(torch, name)(number)


def lazily(package: str) -> Callable[[str], Any]:
    """Returns a package's `__getattr__`, which imports a name when it is first used.

    The names are those that the package's source imports for type checkers, each from the module named there.

    Example:
        `if TYPE_CHECKING: from mine.attention import Inspection`, and below, so that a type checker still
        sees a misspelt name, `if not TYPE_CHECKING: __getattr__ = lazily(__name__)`.

    Args:
        package: Its name.
    """

    @cache
    def imports() -> dict[str, str]:
        loader: Any = sys.modules[package].__loader__
        return {
            alias.name: "." * node.level + (node.module or "")
            for node in ast.walk(ast.parse(loader.get_source(package)))
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }

    def get(name: str) -> Any:
        if name not in imports():
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=sys.modules[package])
        limit_spinning()
        value = getattr(import_module(imports()[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
