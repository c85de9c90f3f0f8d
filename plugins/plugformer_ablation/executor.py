"""What runs cells: in other processes, wherever they are. Results are in the cells' folders, not here."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from plugformer_ablation.cells import Cell
from plugformer_ablation.training import Message

Event = tuple[Cell, Message] | None
"""What has happened to a cell; None if nothing has for a moment."""


class Executor(ABC):
    """Runs cells, several at a time.

    Args:
        threads: Of each cell.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads

    @abstractmethod
    def events(self, cells: Sequence[Cell]) -> Iterator[Event]:
        """Runs cells in their order and yields what happens, at least every second.

        The last message about a cell says that it has ended or, after `stop`, that it was stopped; there is
        none about one that was never begun. Whoever closes the iterator early ends all cells at once; what
        they have saved stays.
        """

    @abstractmethod
    def stop(self) -> None:
        """Asks all running cells to save and end; no other is begun."""
