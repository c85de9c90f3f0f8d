"""What runs cells: in other processes, wherever they are. Results are in the cells' folders, not here."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from plugformer_ablation.cell import Cell


@dataclass(frozen=True)
class Advanced:
    """A cell has made updates."""

    cell: Cell
    step: int
    steps: int


@dataclass(frozen=True)
class Ended:
    """A cell is done with: finished, or failed for a reason."""

    cell: Cell
    failure: str | None


@dataclass(frozen=True)
class Stopped:
    """A cell was interrupted and has saved what it had."""

    cell: Cell


@dataclass(frozen=True)
class Waiting:
    """Nothing has happened for a moment."""


Event: TypeAlias = Advanced | Ended | Stopped | Waiting


class Executor(ABC):
    """Runs cells, several at a time."""

    @property
    @abstractmethod
    def threads(self) -> int:
        """Threads of each cell."""

    @abstractmethod
    def events(self, cells: Sequence[Cell]) -> Iterator[Event]:
        """Runs cells in their order and yields what happens, at least every second `Waiting`.

        Each cell ends with `Ended` or, after `stop`, with `Stopped` unless it was never begun. Whoever closes
        the iterator early ends all cells at once; what they have saved stays.
        """

    @abstractmethod
    def stop(self) -> None:
        """Asks all running cells to save and end; no other is begun."""
