"""One segment of a training: a process of its own, which is killed at an update or when all are made."""

import multiprocessing
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from plugformer import resume, train
from plugformer.errors import PlugformerError, RunError
from plugformer.hooks import hookimpl, must_not_fail
from plugformer.registry import Registry
from plugformer_verification.recording import Recording

_STARTED_BY = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"


@dataclass(frozen=True)
class TrainingSegment:
    """What a process does.

    Attributes:
        task: What is trained.
        overrides: Settings on top of it.
        manifests: Local manifests.
        run: The run directory: gone on with if it is there.
        recording: Where the updates are recorded.
        number: Of the segment, counted from 0.
        until: The update after which, before any evaluation, the process is killed; None for the end.
    """

    task: str
    overrides: Sequence[str]
    manifests: Sequence[Path]
    run: Path
    recording: Path
    number: int
    until: int | None

    def train(self) -> None:
        """Trains in another process until that is killed.

        Raises:
            RunError: The training fails by itself.
        """
        context: Any = multiprocessing.get_context(_STARTED_BY)  # the base class lacks Process
        if _STARTED_BY == "forkserver":
            context.set_forkserver_preload([__name__])
        ours, theirs = context.Pipe()
        process = context.Process(target=_train, args=(self, theirs))
        process.start()
        theirs.close()
        try:
            failure = ours.recv()
        except EOFError:
            process.join()
            failure = f"its process ended by itself, with status {process.exitcode}"
        finally:
            process.kill()  # SIGKILL, where there is one: nothing is saved, nothing is closed
            process.join()
        if failure:
            raise RunError(f"the training that is to be killed fails by itself: {failure}")


class _Stop:
    """Waits to be killed, at an update or once the training is over."""

    def __init__(self, until: int | None, connection: Connection) -> None:
        self._until = until
        self._connection = connection

    def reached(self, step: int) -> None:
        if step == self._until:
            self._wait()

    @hookimpl
    @must_not_fail
    def run_ended(self) -> None:
        self._wait()

    def _wait(self) -> None:
        self._connection.send("")
        self._connection.recv()


def _train(segment: TrainingSegment, connection: Connection) -> None:
    """What the process does."""
    stop = _Stop(segment.until, connection)
    try:
        shared: dict[str, Any] = {
            "registry": Registry.discover(*segment.manifests),
            "observers": [Recording(segment.recording, segment.number, stop.reached), stop],
            "notify": lambda _: None,
        }
        if segment.run.exists():
            resume(segment.run, **shared)
        else:
            train(segment.task, overrides=segment.overrides, out=segment.run, **shared)
    except PlugformerError as error:
        connection.send(str(error))
    except Exception as error:  # of a component, which is a stranger
        connection.send(f"{type(error).__name__}: {error}")
