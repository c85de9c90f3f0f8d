"""`python -m plugformer`, which `torchrun -m plugformer` needs: the command line, a package of its own."""

import os
from importlib import import_module


def main() -> None:
    """Runs a command and exits."""
    # A worker process is started by `python -c`, which would import a `torch.py` of the working directory.
    # https://docs.python.org/3/using/cmdline.html#envvar-PYTHONSAFEPATH
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    import_module("plugformer_cli.main").main()


if __name__ == "__main__":
    main()
