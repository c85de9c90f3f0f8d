"""Signals: the first asks, the second acts as usual."""

import signal

import pytest

from plugformer import distributed
from plugformer.distributed import Interruption

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


@pytest.fixture(autouse=True)
def usual_handlers():
    """Python's own handlers, also where tests run in the background, which ignores Ctrl-C and hanging up."""
    usual = {signal.SIGINT: signal.default_int_handler}
    before = {number: signal.signal(number, usual.get(number, signal.SIG_DFL)) for number in HANDLED}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", HANDLED)
def test_the_first_signal_asks(number):
    asked = Interruption()
    with asked.watched():
        assert asked.requested is None
        signal.raise_signal(number)
        assert asked.requested == number.name


def test_the_second_signal_acts_as_usual(monkeypatch):
    monkeypatch.setattr(distributed, "ONE_REQUEST", 0.0)
    asked = Interruption()
    with asked.watched():
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_signals_that_come_together_are_one_request():
    """Ctrl-C in a terminal reaches the launcher and its processes, and the launcher sends them another."""
    asked = Interruption()
    with asked.watched():
        for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM):
            signal.raise_signal(number)
        assert asked.requested == "SIGINT"


def test_handlers_come_back():
    before = [signal.getsignal(number) for number in HANDLED]
    with Interruption().watched():
        assert [signal.getsignal(number) for number in HANDLED] != before
        signal.raise_signal(signal.SIGINT)
    assert [signal.getsignal(number) for number in HANDLED] == before


def test_an_ignored_end_of_the_terminal_stays_ignored():
    """As nohup wants it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interruption().watched():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
