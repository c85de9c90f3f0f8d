"""Signals that ask a run to stop: the first one asks, a later one acts as usual."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ONE_REQUEST = 1.0
"""Seconds in which all signals are one request: a launcher passes on what the terminal has sent already."""


class Interruption:
    """Whether somebody has asked the run to stop.

    Attributes:
        requested: The name of the signal, or None.
    """

    requested: str | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Inside, the first of these signals sets `requested`; one that comes later acts as usual."""
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread may set handlers; a notebook's worker keeps its own
            return
        signals = [signal.SIGINT, signal.SIGTERM]
        if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signals.append(signal.SIGHUP)  # the end of the terminal; Windows has none, nohup ignores it
        self._usual = {number: signal.signal(number, self._note) for number in signals}
        try:
            yield
        finally:
            self._restore()

    def _restore(self) -> None:
        for number, handler in self._usual.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 (Python's signature)
        now = time.monotonic()
        if self.requested is None:
            self.requested, self._since = signal.Signals(number).name, now
        elif now - self._since > ONE_REQUEST:
            self._restore()
            signal.raise_signal(number)
