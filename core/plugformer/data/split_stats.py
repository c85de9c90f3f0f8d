"""How many examples of a split were read, left out or shortened, and why.

Data components count with it, so this module does not import `datasets`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]

SHOWN = 3
"""Faults that a notice shows."""

FEW = 0.03
"""The share of bad rows up to which they are taken for accidents."""


@dataclass
class SplitStats:
    """Counts of the rows that were read; a row counts again in every pass.

    Attributes:
        rows: Number of rows.
        bad: Number of rows left out because of a fault.
        faults: The first faults.
        dropped: Number of examples left out because of their length.
        truncated: Number of examples shortened.
        longest: Tokens of the longest side before, special tokens not counted.
    """

    rows: int = 0
    bad: int = 0
    faults: list[str] = field(default_factory=list)
    dropped: int = 0
    truncated: int = 0
    longest: int = 0

    def sound(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yields the rows that have no fault, and counts the others."""
        for row in rows:
            if fault := row.get("fault"):
                self.rows += 1
                self.leave_out(fault)
            else:
                yield row

    def leave_out(self, fault: str, rows: int = 1) -> None:
        """Counts rows that have a fault."""
        self.bad += rows
        self.faults = [*self.faults, fault][:SHOWN]

    def __add__(self, other: "SplitStats") -> "SplitStats":
        return SplitStats(
            self.rows + other.rows,
            self.bad + other.bad,
            [*self.faults, *other.faults][:SHOWN],
            self.dropped + other.dropped,
            self.truncated + other.truncated,
            max(self.longest, other.longest),
        )

    def notices(self, split: str) -> list[str]:
        """Returns notices about bad rows."""
        if not self.bad:
            return []
        skipped = f"{split}: bad rows skipped: {self.bad:,} of {self.rows:,} ({self.bad / self.rows:.1%})"
        few = self.bad <= FEW * self.rows
        first = (
            f"{skipped}; the first:" if few else f"WARNING: {skipped}: do the options of data fit? The first:"
        )
        return ["\n  ".join([first, *self.faults])]

    def __str__(self) -> str:
        parts = [f"{self.rows - self.bad} examples, longest side {self.longest} tokens"]
        parts += [f"{self.dropped} dropped"] if self.dropped else []
        parts += [f"{self.truncated} truncated"] if self.truncated else []
        return ", ".join(parts)
