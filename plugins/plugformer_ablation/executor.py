"""What runs cells: in other processes, wherever they are. Results are in the cells' folders, not here."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from plugformer_ablation.cells import Cell
from plugformer_ablation.training import Message

Event = tuple[Cell, Message] | None
"""What has happened to a cell; None if nothing has for a moment."""


class Executor(ABC):
    """Runs cells, several at a time.

    Args:
        threads: Of each cell.
        workers: Cells at a time, at most; None if their number is not limited here.
    """

    def __init__(self, threads: int, workers: int | None) -> None:
        self.threads = threads
        self.workers = workers
        self._stopping = False
        self._running: dict[Any, Any] = {}

    @property
    def running(self) -> int:
        """The number of cells that run, or wait for room elsewhere."""
        return len(self._running)

    def events(self, cells: Sequence[Cell]) -> Iterator[Event]:
        """Runs cells in their order and yields what happens, at least every second.

        The last message about a cell says that it has ended or, after `stop`, that it was stopped; there is
        none about one that was never begun. Whoever closes the iterator early ends all cells at once; what
        they have saved stays.
        """
        waiting = deque(cells)
        try:
            while self.running or (waiting and not self._stopping):
                while waiting and not self._stopping and self.running < (self.workers or len(cells)):
                    self.start(waiting.popleft())
                told: list[Event] = [*self.receive()]
                yield from told or [None]
        finally:
            self.end()

    def stop(self) -> None:
        """Asks all running cells to save and end; no other is begun."""
        if not self._stopping:
            self._stopping = True
            self.interrupt()

    @abstractmethod
    def start(self, cell: Cell) -> None:
        """Begins to train a cell."""

    @abstractmethod
    def receive(self) -> Iterator[tuple[Cell, Message]]:
        """Yields messages from running cells; waits for a moment if there are none."""

    @abstractmethod
    def interrupt(self) -> None:
        """Asks the running cells, once, to save and end."""

    @abstractmethod
    def end(self) -> None:
        """Ends the running cells at once."""
