"""`python -m plugformer`, which `torchrun -m plugformer` needs: the command line, a package of its own."""

import gc
import os
from importlib import import_module
from pathlib import Path


def main() -> None:
    """Runs a command and exits."""
    # A worker process is started by `python -c`, which would import a `torch.py` of the working directory.
    # https://docs.python.org/3/using/cmdline.html#envvar-PYTHONSAFEPATH
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    limit_spinning()  # before torch is imported
    # The million objects that imports make stay: the garbage collector would search them all seven times.
    gc.set_threshold(*gc.get_threshold()[:2], 100)
    import_module("plugformer_cli.main").main()


def limit_spinning() -> None:
    """Chooses how OpenMP's idle threads wait, unless the user has a setting.

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


if __name__ == "__main__":
    main()
