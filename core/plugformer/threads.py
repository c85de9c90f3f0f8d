"""What threads of libraries need: OpenMP's before torch is imported, MKL's before a model is made."""

import os
import time
from collections.abc import Mapping, MutableMapping
from functools import cache
from pathlib import Path

_SPINNING = {
    "GOMP_SPINCOUNT": "20000",  # GNU's runtime, which PyTorch's wheels bring: rounds; 300,000 by itself
    "KMP_BLOCKTIME": "1",  # Intel's and LLVM's: milliseconds; 200 by itself
}
_READINGS = 5
_PAUSE = 0.005  # seconds

VECTOR_FUNCTIONS = (
    "acos",
    "asin",
    "atan",
    "cos",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "log",
    "log10",
    "log2",
    "sin",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
)
"""Those that PyTorch's builds for x86 take from Intel's MKL."""


def limit_spinning(
    environment: MutableMapping[str, str] = os.environ, load: Path = Path("/proc/loadavg")
) -> None:
    """Chooses how OpenMP's threads wait between parallel regions, unless the user has a setting.

    A small model's kernels take microseconds. A thread that sleeps after each of them wakes up too late for
    the next one, which costs a third of the speed on an idle machine; one that spins takes the core from
    whatever else runs, and beside another program training is then several times slower. So threads spin
    briefly where they have their cores to themselves and wait passively where other programs need them. The
    runtime reads its variables once, when torch is imported; processes started later inherit them.
    `benchmarks/threads.py` measures the settings.

    Args:
        environment: Where the variables are set. `OMP_WAIT_POLICY`, `GOMP_SPINCOUNT` and `KMP_BLOCKTIME` of
            the user are kept.
        load: Where Linux says how many threads run; elsewhere the machine counts as idle.
    """
    if "OMP_WAIT_POLICY" in environment:
        return
    if environment.keys().isdisjoint(_SPINNING) and _is_crowded(environment, load):
        environment["OMP_WAIT_POLICY"] = "PASSIVE"
        return
    for variable, value in _SPINNING.items():
        environment.setdefault(variable, value)


def _is_crowded(environment: Mapping[str, str], load: Path) -> bool:
    """Returns whether other programs and OpenMP's threads need more cores than there are."""
    cores = os.cpu_count() or 1
    threads = environment.get("OMP_NUM_THREADS", "")
    room = cores - min(int(threads) if threads.isdecimal() else cores, cores)
    for reading in range(_READINGS):
        if reading:
            time.sleep(_PAUSE)
        if _running(load) - 1 <= room:  # on an idle machine the first reading shows it
            return False
    return True


def _running(load: Path) -> int:
    """Returns the threads that run or wait for a core, this one included (`man 5 proc`, /proc/loadavg)."""
    try:
        return int(load.read_text(encoding="ascii").split()[3].split("/")[0])
    except (OSError, ValueError, IndexError):
        return 1


@cache
def warm_up_mkl() -> None:
    """Calls each function on one number, once in a process.

    MKL chooses a function's kernel at its first call. Where several threads make that call at the same time,
    one of them may compute its part with another kernel, whose relative errors reach 1e-4: a training would
    not be the same as another with its seed. https://github.com/pytorch/pytorch/issues/188792
    """
    import torch  # the other function must be called before

    for dtype in (torch.float32, torch.float64):
        number = torch.full((1,), 0.5, dtype=dtype, device="cpu")
        for name in VECTOR_FUNCTIONS:
            getattr(torch, name)(number)
