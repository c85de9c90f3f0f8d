"""Cells on a Ray cluster, whose machines share the study's folder and have the same packages installed."""

from collections.abc import Iterator
from typing import Any

from plugformer.errors import needing
from plugformer_ablation.cells import Cell
from plugformer_ablation.executor import Executor
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
        with needing("ray", "--executor ray"):
            import ray
        super().__init__(threads, workers)
        self._ray: Any = ray

    def start(self, cell: Cell) -> None:
        """Gives a cell to the cluster."""
        if not self._ray.is_initialized():
            self._ray.init(log_to_driver=False, include_dashboard=False)
        gpus = 1 if self._ray.cluster_resources().get("GPU") else 0
        task = self._ray.remote(num_cpus=self.threads, num_gpus=gpus, max_retries=0, max_calls=1)(_train)
        self._running[task.remote(cell, self.threads)] = cell

    def receive(self) -> Iterator[tuple[Cell, Message]]:
        """Yields a message for each cell that has ended; running cells send none."""
        ready, _ = self._ray.wait(list(self._running), timeout=_HEARTBEAT)
        for reference in ready:
            cell = self._running.pop(reference)
            yield cell, self._ended(cell, reference)

    def interrupt(self) -> None:
        """Cancels as by Ctrl-C, once: a training saves and ends, which a second Ctrl-C would cut short."""
        for reference in self._running:
            self._ray.cancel(reference)

    def end(self) -> None:
        """Kills the workers."""
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running.clear()

    def _ended(self, cell: Cell, reference: Any) -> Message:
        try:
            message: Message = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            if self._stopping:
                return Message(stopped=True)
            return Message(failure=f"Ray: {type(error).__name__}; {cell.log} has what it said")
        return message


def _train(cell: Cell, threads: int) -> Message:
    """What a worker of the cluster does; how far it is is told to nobody."""
    return work_on(cell, threads, lambda *_: None)
