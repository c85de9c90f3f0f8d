"""How long idle threads of OpenMP wait actively before they sleep. Needed before torch is imported."""

import os
from collections.abc import MutableMapping

_SPINNING = {
    "GOMP_SPINCOUNT": "20000",  # GNU's runtime, which PyTorch's wheels bring: rounds; 300,000 by itself
    "KMP_BLOCKTIME": "1",  # Intel's and LLVM's: milliseconds; 200 by itself
}


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
