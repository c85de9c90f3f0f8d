"""Processes forked from one that has imported what takes seconds to import, and has computed nothing.

What is tested in processes of its own starts several dozen of them: each would import PyTorch again. What has
to start as users start it is begun by `subprocess`.
"""

import multiprocessing
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import forkserver, spawn
from pathlib import Path

import pytest

PRELOADED = [
    "plugformer_cli.main",
    "plugformer_ablation.running.training",
    "datasets",
    "evaluate",
    "scipy.stats",
    "torch._dynamo",  # which PyTorch's optimizers import when they are made
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
]
PROGRAM = Path(__file__).with_name("forked.py")
PATH = [*sys.path]
"""Before tests put folders of their own there."""


class _Environment:
    """Becomes, where it is unpickled, the environment of this process."""

    def __reduce__(self) -> tuple[object, ...]:
        return exec, (f"import os; os.environ.clear(); os.environ.update({dict(os.environ)!r})",)


@contextmanager
def one_fork_server() -> Iterator[None]:
    """Lets all forked processes of this one come from one server, in the environment of their own moment.

    Otherwise a server has what its first user wanted to have imported, and the environment of that moment.
    """
    then = dict(os.environ)
    start, prepare = forkserver._forkserver.ensure_running, spawn.get_preparation_data

    def start_as_then() -> None:
        if forkserver._forkserver._forkserver_pid is not None:
            start()
            return
        now = dict(os.environ)
        _become({**then, "TORCH_CPP_LOG_LEVEL": "ERROR"})  # which `train` sets
        try:
            start()
        finally:
            _become(now)

    with pytest.MonkeyPatch.context() as patch:
        forkserver.set_forkserver_preload(PRELOADED)
        patch.setattr(forkserver, "set_forkserver_preload", lambda names: None)
        patch.setattr(forkserver._forkserver, "ensure_running", start_as_then)
        patch.setattr(
            spawn, "get_preparation_data", lambda name: prepare(name) | {"environment": _Environment()}
        )
        yield


def _become(environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


class Forked:
    """Does what `python ARGUMENTS` does; to be used like a `subprocess.Popen` whose output is captured.

    Args:
        arguments: `-m MODULE ...`, `-c CODE ...` or `FILE ...`.
        environment: Variables on top of those of this process.
        own_session: Whether it begins a session, in which all that it starts is found; its workers are then
            forked as quickly.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        own_session: bool = False,
    ) -> None:
        self._folder = Path(tempfile.mkdtemp())
        self._files = [self._folder / name for name in ("output", "messages")]
        given = {
            "arguments": list(arguments),
            "environment": dict(environment or {}),
            "files": self._files,
            "path": PATH,
            "own_session": own_session,
        }
        context = multiprocessing.get_context("forkserver")
        self._process = context.Process(target=runpy.run_path, args=(str(PROGRAM), given, "forked"))
        self._process.start()
        self.pid = self._process.pid
        self._said: list[str] = []

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self._process.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> None:
        self._process.join(timeout)
        assert self.poll() is not None, f"goes on after {timeout} s"

    def communicate(self, timeout: float | None = None) -> list[str]:
        self.wait(timeout)
        if self._folder.exists():
            self._said = [file.read_text(encoding="utf-8") if file.exists() else "" for file in self._files]
            shutil.rmtree(self._folder)
        return self._said


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Does what `python ARGUMENTS` does, and waits for its end."""
    process = Forked(arguments)
    try:
        said = process.communicate()
    finally:
        process.kill()
    return subprocess.CompletedProcess(arguments, process.returncode or 0, *said)
