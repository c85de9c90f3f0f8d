"""What was read of a stream of examples, and what was left out of it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from plugformer.data.length import LengthCount

Row = dict[str, Any]
Natural = Annotated[int, Field(ge=0)]

SHOWN = 3
"""Faults that are told in full."""

FEW = 0.03
"""The share of rows up to which bad ones are taken for accidents."""


@dataclass
class ReadCount:
    """What was read so far; an example counts again at every pass.

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
        """Yields the rows that have no fault, and counts all."""
        for row in rows:
            self.rows += 1
            if fault := row.get("fault"):
                self.leave_out(fault)
            else:
                yield row

    def leave_out(self, fault: str, rows: int = 1) -> None:
        """Counts rows that have a fault."""
        self.bad += rows
        self.faults = [*self.faults, fault][:SHOWN]

    def limited(self, count: LengthCount) -> None:
        """Counts what the length limit did to some of them."""
        self.dropped += count.dropped
        self.truncated += count.truncated
        self.longest = max(self.longest, count.longest)

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
        """Returns what people should know of bad rows."""
        if not self.bad:
            return []
        few = self.bad <= FEW * self.rows
        said = f"{split}: bad rows skipped: {self.bad:,} of {self.rows:,} ({self.bad / self.rows:.1%})"
        first = f"{said}; the first:" if few else f"WARNING: {said}: do the options of data fit? The first:"
        return ["\n  ".join([first, *self.faults])]

    def __str__(self) -> str:
        examples = LengthCount(self.rows - self.bad, self.dropped, self.truncated, self.longest)
        return str(examples)
