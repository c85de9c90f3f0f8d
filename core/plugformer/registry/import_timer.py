"""Naming an import that takes long while it does, so that who waits knows for whom."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

PATIENCE = 10.0
"""Seconds before an import is named."""


@contextmanager
def named_when_slow(module: str, what: str) -> Iterator[None]:
    """Inside, a module is imported; one that is not done in time gets a line on standard error.

    Args:
        module: Its name.
        what: What needs it, with its distribution.
    """
    timer = Timer(PATIENCE, _tell, [f"still importing {module} after {PATIENCE:g} s, for {what}"])
    timer.daemon = True  # it keeps no process from ending
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # what comes next may fork, which a thread must not see


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 (whoever waits reads it there)
