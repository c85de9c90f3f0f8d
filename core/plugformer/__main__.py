"""The program: `plugformer`, or `python -m plugformer`, as `torchrun -m plugformer` needs it."""

import os
import signal
import sys

from plugformer.threads import limit_spinning


def main() -> None:
    """Runs a command and exits; Ctrl-C while commands are still being imported ends like any other."""
    try:
        _settle_signals()
        _settle_imports()
        limit_spinning()
        from plugformer.commands.main import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    except Exception as error:  # not even the commands could be imported
        words = f"{type(error).__name__}: {error}"
        memory = "there is not enough memory to start" if isinstance(error, MemoryError) else "cannot start"
        sys.stderr.write(f"Error: {memory} ({words})\n")
        sys.exit(2)


def _settle_signals() -> None:
    """Lets SIGTERM, and SIGHUP unless nohup ignores it, end a command as Ctrl-C does: in words, tidied up."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


def _settle_imports() -> None:
    """Keeps the working directory, which may be a stranger's run, off `sys.path` of processes started later.

    `multiprocessing` starts its servers by `python -c`, which would import a `torch.py` that lies there.
    https://docs.python.org/3/using/cmdline.html#envvar-PYTHONSAFEPATH
    """
    os.environ.setdefault("PYTHONSAFEPATH", "1")


if __name__ == "__main__":
    main()
