"""What hostile inputs may not cause: code of theirs that runs, files outside of their folder, a hang."""

import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisWarning

from plugformer.cache import cache_folder

CASES = 40
"""Cases of each property: the same in every run."""

NEW = os.environ.get("PLUGFORMER_FUZZ")
"""The number of new cases of each property to try instead."""

SECONDS = 30
"""The longest time of one case."""

FORBIDDEN = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "subprocess.Popen",
    "pickle.find_class",
    "socket.connect",
)
CHANGING = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "shutil.rmtree")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

Fuzz = Callable[[st.SearchStrategy, Callable[[object], object]], None]


class Hung(KeyboardInterrupt):
    """Ends a case; no reader catches it."""


class Watch:
    """Listens to audit events: https://docs.python.org/3/library/audit_events.html."""

    def __init__(self) -> None:
        self.allowed: tuple[str, ...] = ()
        self.seen: list[str] = []
        sys.addaudithook(self._hear)

    @contextmanager
    def on(self, *folders: Path) -> Iterator[None]:
        """Inside, nothing may be run or sent, and nothing may be written outside some folders."""
        self.seen, self.allowed = [], ("/dev/", *(str(folder.resolve()) for folder in folders))
        try:
            yield
        finally:
            self.allowed = ()
        assert not self.seen

    def _hear(self, event: str, arguments: tuple) -> None:
        if not self.allowed:
            return
        if event in FORBIDDEN or (event == "import" and str(arguments[0]).startswith("canary")):
            self.seen.append(f"{event} {arguments}")
        # A name is relative to an open folder in a call of shutil.rmtree, which is an event itself.
        is_writing = event == "open" and (arguments[2] or 0) & WRITING
        if is_writing or (event in CHANGING and arguments[-1] in (None, -1)):
            names = [name for name in arguments[:2] if isinstance(name, str | Path)]
            for name in names[:1] if event == "open" else names:
                if not str(Path(name).resolve()).startswith(self.allowed):
                    self.seen.append(f"{event} {name}")


WATCH = Watch()


@contextmanager
def limited() -> Iterator[None]:
    """Ends a case that takes too long."""

    def tick(number: int, frame: object) -> None:
        raise Hung(f"a case took more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, tick)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def fuzz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fuzz:
    """Runs a reader on many cases. It may raise any exception: the command line ends with a line for each.

    Readers write into `tmp_path` and the cache at most. A module `canary` can be imported, and must not be.
    """
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "canary.py").write_text("class Canary: pass")
    warnings.filterwarnings("ignore", category=HypothesisWarning)  # a failing case is long

    def run(cases: st.SearchStrategy, read: Callable[[object], object]) -> None:
        @settings(
            max_examples=int(NEW or CASES),
            deadline=None,
            database=None,
            derandomize=NEW is None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        )
        @given(cases)
        def check(case: object) -> None:
            with limited(), WATCH.on(tmp_path, cache_folder()):
                try:
                    read(case)
                except AssertionError:
                    raise
                except Exception:  # noqa: S110 (see above)
                    pass

        check()

    return run
