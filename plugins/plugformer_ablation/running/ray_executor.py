"""Cells on a cluster of Ray."""

import time
from collections.abc import Iterator
from typing import Any

from plugformer.errors import needing
from plugformer_ablation.running.cells import Cell
from plugformer_ablation.running.claims import HEARTBEAT, state_of
from plugformer_ablation.running.executors import Executor
from plugformer_ablation.running.training import Message, work_on


class RayExecutor(Executor):
    """Runs cells on a cluster whose machines share the study's folder and have the same packages installed.

    As many run at a time as fit on the cluster that `RAY_ADDRESS` names, or on this machine. Each reserves
    one core and, if the cluster has any, a GPU, of which `pack` cells have a share each. Ray retries nothing:
    a cell of a lost machine is trained once more as anywhere else.

    Raises:
        ConfigurationError: Ray is not installed.
    """

    def __init__(self, workers: int | None = None, pack: int = 1) -> None:
        with needing("ray", "--executor ray"):
            import ray
        super().__init__(threads=1, workers=workers)
        self._ray: Any = ray
        self._share, self._looked = 1 / pack, 0.0

    def start(self, cell: Cell) -> None:
        """Submits a cell to the cluster."""
        if not self._ray.is_initialized():
            self._ray.init(log_to_driver=False, include_dashboard=False)
        gpus = self._share if self._ray.cluster_resources().get("GPU") else 0
        task = self._ray.remote(num_cpus=1, num_gpus=gpus, max_retries=0, max_calls=1)(_train)
        self.running[task.remote(cell)] = cell

    def receive(self) -> Iterator[tuple[Cell, Message]]:
        """Yields a message for each cell that has ended, and what the claims of running ones say."""
        for reference in self._ray.wait(list(self.running), timeout=1.0)[0]:
            cell = self.running.pop(reference)
            try:
                yield cell, self._ray.get(reference)
            except self._ray.exceptions.RayError as error:
                failure = f"Ray: {type(error).__name__}; {cell.log} has its output"
                yield cell, Message(stopped=True) if self.stopping else Message(failure=failure, lost=True)
        if time.monotonic() - self._looked > HEARTBEAT:
            self._looked = time.monotonic()
            claims = [(cell, state_of(cell.folder)[1]) for cell in self.running.values()]
            yield from ((cell, Message(it["step"], it["steps"])) for cell, it in claims if it.get("steps"))

    def interrupt(self) -> None:
        """Cancels the cells, which has the effect of Ctrl-C: they save and end."""
        for reference in self.running:
            self._ray.cancel(reference)

    def end(self) -> None:
        """Kills the workers."""
        for reference in self.running:
            self._ray.cancel(reference, force=True)
        self.running.clear()


def _train(cell: Cell) -> Message:
    return work_on(cell, 1, lambda *_: None)
