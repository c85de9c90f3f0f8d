"""How many examples were read, and how many of them were left out or shortened, and why.

Data components count with it: what they import does not wait for `datasets`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import ConfigDict, Field

Row = dict[str, Any]

Natural = Annotated[int, Field(ge=0)]

SHOWN = 3
"""Faults that are told in full."""

FEW = 0.03
"""The share of rows up to which bad ones are taken for accidents."""


@dataclass
class ReadCount:
    """What was read so far, and what the length limit did to it; an example counts again at every pass.

    Attributes:
        rows: Number of rows.
        bad: Number of those left out because of a fault.
        faults: The first faults.
        dropped: Number of examples left out because of their length.
        truncated: Number of those shortened.
        longest: Tokens of the longest side before, special tokens not counted.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    rows: Natural = 0
    bad: Natural = 0
    faults: list[str] = field(default_factory=list)
    dropped: Natural = 0
    truncated: Natural = 0
    longest: Natural = 0

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

    def __add__(self, other: "ReadCount") -> "ReadCount":
        return ReadCount(
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
        few = self.bad <= FEW * self.rows
        said = f"{split}: bad rows skipped: {self.bad:,} of {self.rows:,} ({self.bad / self.rows:.1%})"
        first = f"{said}; the first:" if few else f"WARNING: {said}: do the options of data fit? The first:"
        return ["\n  ".join([first, *self.faults])]

    def __str__(self) -> str:
        parts = [f"{self.rows - self.bad} examples, longest side {self.longest} tokens"]
        parts += [f"{self.dropped} dropped"] if self.dropped else []
        parts += [f"{self.truncated} truncated"] if self.truncated else []
        return ", ".join(parts)
