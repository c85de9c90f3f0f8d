"""Rows that cannot be used: what is done about them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Literal, TypeVar

from plugformer.data import SplitStats
from plugformer.errors import DataError

Policy = Literal["refuse", "skip"]
"""Stop at the first bad row, or leave all of them out and say so."""

T = TypeVar("T")


class BadRows:
    """Stops at bad rows, or counts them.

    Args:
        policy: Which of the two.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._counts: dict[str, SplitStats] = defaultdict(SplitStats)

    def sound(self, split: str, rows: Iterable[T | DataError]) -> Iterator[T]:
        """Yields the rows of a split that have no fault.

        Raises:
            DataError: A row has one and the policy refuses it, or all rows have.
        """
        any_sound, count = False, self._counts[split]
        for row in rows:
            count.rows += 1
            if isinstance(row, DataError):
                self.reject(split, row)
            else:
                any_sound = True
                yield row
        if count.bad and not any_sound:
            raise DataError(f"{split}: not one row is sound; the first:\n  {count.faults[0]}")

    def reject(self, split: str, fault: DataError, rows: int = 1) -> None:
        """Raises a fault, or counts the rows that have it."""
        if self._policy == "refuse":
            raise fault
        self._counts[split].leave_out(str(fault), rows)

    def notices(self) -> list[str]:
        """Returns for each split how many rows were left out, and the first faults."""
        return [notice for split, count in self._counts.items() for notice in count.notices(split)]
