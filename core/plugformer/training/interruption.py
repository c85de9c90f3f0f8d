"""Signals that ask training to stop: after the first it saves and stops, after another it stops at once."""

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

    def __init__(self) -> None:
        self.requested: str | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Inside, the first of these signals sets `requested`; one that comes later acts as usual."""
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread may set handlers; a notebook's worker keeps its own
            return
        usual = {number: signal.signal(number, self._note) for number in _signals()}
        self._usual = usual
        try:
            yield
        finally:
            for number, handler in usual.items():
                signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 (Python's signature)
        now = time.monotonic()
        if self.requested is None:
            self.requested, self._since = signal.Signals(number).name, now
        elif now - self._since > ONE_REQUEST:
            for each, handler in self._usual.items():
                signal.signal(each, handler)
            signal.raise_signal(number)


def _signals() -> list[signal.Signals]:
    """Returns Ctrl-C, SIGTERM, and SIGHUP, the end of the terminal, unless it is ignored as by nohup."""
    signals = [signal.SIGINT, signal.SIGTERM]
    hangup = getattr(signal, "SIGHUP", None)  # Windows has none
    if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:
        signals.append(hangup)
    return signals
