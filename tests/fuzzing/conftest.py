"""What all fuzzed readers share: how many cases, the time that one may take, and a watch over its effects."""

import itertools
import os
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisWarning

from plugformer.cache import cache_folder

SHORT, LONG = 30, 300
"""Cases of one property in the default suite, and in the long one: the same at every run."""

NEW = os.environ.get("PLUGFORMER_FUZZ")
"""How many new cases of each property to try instead."""

SECONDS = 30
"""What one case may take: far more than it does, so that a busy machine is not taken for a hang.

They are counted one by one, so that a process which was stopped for a while loses one of them.
"""

FORBIDDEN = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "subprocess.Popen",
    "pickle.find_class",
    "socket.connect",
)
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

Fuzz = Callable[[st.SearchStrategy, Callable[[object], object]], None]


class Hung(KeyboardInterrupt):
    """What no reader catches."""


class Watch:
    """Listens to audit events while it is on: https://docs.python.org/3/library/audit_events.html."""

    def __init__(self) -> None:
        self.allowed: list[str] | None = None
        self.seen: list[str] = []
        sys.addaudithook(self._hear)

    @contextmanager
    def on(self, *folders: Path) -> Iterator[None]:
        """Inside, nothing may be run or sent, nor anything written outside some folders."""
        self.seen, self.allowed = [], [str(folder.resolve()) for folder in folders]
        try:
            yield
        finally:
            self.allowed = None
        assert not self.seen

    def _hear(self, event: str, arguments: tuple) -> None:
        if self.allowed is None:
            return
        if event in FORBIDDEN or (event == "import" and str(arguments[0]).startswith("canary")):
            self.seen.append(f"{event} {arguments}")
        elif event == "open" and isinstance(arguments[0], str) and (arguments[2] or 0) & WRITING:
            self._written(event, arguments[0])
        elif event in ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "shutil.rmtree"):
            for name in arguments[:2]:
                # Relative to an open folder, names belong to a shutil.rmtree that has been heard already.
                if isinstance(name, str | Path) and arguments[-1] in (None, -1):
                    self._written(event, name)

    def _written(self, event: str, name: str | Path) -> None:
        path = str(Path(name).resolve())
        if not path.startswith((*self.allowed, "/dev/")):
            self.seen.append(f"{event} {path}")


WATCH = Watch()

CASES: Counter[str] = Counter()
"""How many each test has tried; fewer than asked for where there are no more."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if CASES:
        terminalreporter.write_line(f"fuzzed: {CASES.total():,} cases of {len(CASES)} properties")


@pytest.fixture
def deadline() -> Iterator[None]:
    """Ends a test that takes longer than one case may."""
    with _limited():
        yield


@pytest.fixture(
    params=[pytest.param(SHORT, marks=pytest.mark.brief), pytest.param(LONG, marks=pytest.mark.long)],
    ids=["short", "long"],
)
def fuzz(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fuzz:
    """Runs a reader on many cases: it ends soon, if with an error, and touches nothing else.

    Readers write into `tmp_path` and the cache at most. A module called canary is at hand to be imported.
    """
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "canary.py").write_text("class Canary: pass")

    warnings.filterwarnings("ignore", category=HypothesisWarning)  # that a failing case is long

    def run(cases: st.SearchStrategy, read: Callable[[object], object]) -> None:
        @settings(
            max_examples=int(NEW or request.param),
            deadline=None,  # the alarm is the deadline, and it ends what does not end by itself
            database=None,
            derandomize=NEW is None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        )
        @given(cases)
        def check(case: object) -> None:
            CASES[request.node.nodeid] += 1
            with _limited(), WATCH.on(tmp_path, cache_folder()):
                try:
                    read(case)
                except AssertionError:
                    raise
                except Exception:  # noqa: S110 (commands end with one line for whatever a reader raises)
                    pass

        check()

    return run


@contextmanager
def _limited() -> Iterator[None]:
    seconds = itertools.count(1)

    def tick(number: int, frame: object) -> None:
        if next(seconds) >= SECONDS:
            raise Hung(f"a case took more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, 1, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
