"""Rows that cannot be used: what is done about them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Literal, TypeVar

from plugformer.errors import DataError

Policy = Literal["refuse", "skip"]
"""Stop at the first bad row, or leave all of them out and say so."""

SHOWN = 3
"""Faults of a split that are told in full."""

T = TypeVar("T")


class BadRows:
    """Stops at bad rows, or counts them.

    Args:
        policy: Which of the two.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._counts: dict[str, int] = defaultdict(int)
        self._faults: dict[str, list[str]] = defaultdict(list)

    def sound(self, split: str, rows: Iterable[T | DataError]) -> Iterator[T]:
        """Yields the rows of a split that have no fault.

        Raises:
            DataError: A row has one and the policy refuses it, or all rows have.
        """
        any_sound = False
        for row in rows:
            if isinstance(row, DataError):
                self.reject(split, row)
            else:
                any_sound = True
                yield row
        if self._faults[split] and not any_sound:
            raise DataError(f"{split}: not one row is sound; the first:\n  {self._faults[split][0]}")

    def reject(self, split: str, fault: DataError, rows: int = 1) -> None:
        """Raises a fault, or counts the rows that have it."""
        if self._policy == "refuse":
            raise fault
        self._counts[split] += rows
        if len(self._faults[split]) < SHOWN:
            self._faults[split].append(str(fault))

    def notices(self) -> list[str]:
        """Returns for each split how many rows were left out, and the first faults."""
        return [
            "\n  ".join([f"{split}: bad rows skipped: {count:,}; the first:", *self._faults[split]])
            for split, count in self._counts.items()
        ]
