"""What threads of libraries need: OpenMP's before torch is imported, MKL's before a model is made."""

import os
from collections.abc import MutableMapping
from functools import cache

_SPINNING = {
    "GOMP_SPINCOUNT": "20000",  # GNU's runtime, which PyTorch's wheels bring: rounds; 300,000 by itself
    "KMP_BLOCKTIME": "1",  # Intel's and LLVM's: milliseconds; 200 by itself
}

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


def limit_spinning(environment: MutableMapping[str, str] = os.environ) -> None:
    """Lets OpenMP's threads spin only briefly between parallel regions, unless the user has a setting.

    A small model's kernels take microseconds. A thread that sleeps after each of them wakes up too late for
    the next one, but one that spins for long takes the core from whatever else runs: beside another program,
    training is then several times slower than with one thread. The runtime reads its variables once, when
    torch is imported; processes started later inherit them. `benchmarks/threads.py` measures the settings.

    Args:
        environment: Where the variables are set. `OMP_WAIT_POLICY`, `GOMP_SPINCOUNT` and `KMP_BLOCKTIME` of
            the user are kept.
    """
    if "OMP_WAIT_POLICY" in environment:
        return
    for variable, value in _SPINNING.items():
        environment.setdefault(variable, value)


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
