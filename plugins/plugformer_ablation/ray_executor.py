"""Cells on a Ray cluster, whose machines share the study's folder and have the same packages installed."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from plugformer.errors import ConfigurationError
from plugformer_ablation.cells import Cell
from plugformer_ablation.executor import Event, Executor
from plugformer_ablation.training import Message, work_on

_HEARTBEAT = 1.0


class RayExecutor(Executor):
    """Runs as many cells at a time as the cluster has room for.

    It connects to the cluster that `RAY_ADDRESS` names, or else starts one on this machine, which ends with
    the study.

    Args:
        threads: Of each cell, which reserves as many cores.
        workers: Cells at a time, at most; None if the cluster's room alone decides.

    Raises:
        ConfigurationError: Ray is not installed.
    """

    def __init__(self, threads: int = 1, workers: int | None = None) -> None:
        try:
            import ray
        except ImportError:
            raise ConfigurationError(
                "--executor ray needs Ray, which is not installed\n  pip install ray"
            ) from None
        super().__init__(threads)
        self._ray: Any = ray
        self._workers = workers
        self._stopping = False
        self._cancelled: set[Any] = set()

    def events(self, cells: Sequence[Cell]) -> Iterator[Event]:
        """Runs cells; see `Executor`. Updates of running cells are not told."""
        if not self._ray.is_initialized():
            self._ray.init(log_to_driver=False, include_dashboard=False)
        gpus = 1 if self._ray.cluster_resources().get("GPU") else 0
        task = self._ray.remote(num_cpus=self.threads, num_gpus=gpus, max_retries=0, max_calls=1)(_train)
        waiting = deque(cells)
        running: dict[Any, Cell] = {}
        try:
            while running or (waiting and not self._stopping):
                while waiting and len(running) < (self._workers or len(cells)) and not self._stopping:
                    cell = waiting.popleft()
                    running[task.remote(cell, self.threads)] = cell
                ready, _ = self._ray.wait(list(running), timeout=_HEARTBEAT)
                for reference in ready:
                    yield running.pop(reference), self._ended(reference)
                if not ready:
                    yield None
                if self._stopping:
                    self._cancel(running)
        finally:
            for reference in running:
                self._ray.cancel(reference, force=True)

    def stop(self) -> None:
        """Asks all running cells to save and end."""
        self._stopping = True

    def _cancel(self, references: Iterable[Any]) -> None:
        """Cancels as by Ctrl-C, once: a training saves and ends, which a second Ctrl-C would cut short."""
        for reference in set(references) - self._cancelled:
            self._ray.cancel(reference)
            self._cancelled.add(reference)

    def _ended(self, reference: Any) -> Message:
        try:
            message: Message = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            if self._stopping:
                return Message(stopped=True)
            return Message(failure=f"Ray: {type(error).__name__}: {str(error).splitlines()[0]}")
        return message


def _train(cell: Cell, threads: int) -> Message:
    """What a worker of the cluster does; how far it is is told to nobody."""
    return work_on(cell, threads, lambda *_: None)
