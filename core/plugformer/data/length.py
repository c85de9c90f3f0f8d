"""What happens to examples that are too long: dropped, truncated or refused, and always counted."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from datasets import Dataset
from jaxtyping import Bool, Int
from numpy import ndarray
from pydantic import ConfigDict, Field

from plugformer.configuration.task import Task
from plugformer.data.encoding import EncodedSplit, token_columns
from plugformer.data.vocabularies import SubwordSampling, Vocabularies
from plugformer.errors import DataError
from plugformer.interfaces import Architecture, Limits

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


def limited(
    data: Dataset,
    task: Task,
    vocabularies: Vocabularies,
    architecture: Architecture,
    place: Callable[[int], str],
) -> tuple[EncodedSplit, ReadCount]:
    """Returns examples without those that a task drops for their length, and what was counted.

    Args:
        data: As for `EncodedSplit`.
        task: Says how long a side may be, and what is done with longer ones.
        vocabularies: Of the task.
        architecture: Of the task.
        place: Returns where a row stands.

    Raises:
        DataError: An example is too long and the task refuses it.
    """
    columns, task_type = token_columns(data, {}), vocabularies.task_type
    block, max_length = task.data, task.model.max_length
    longest = block.length.max or max_length
    lengths = {name: each.lengths for name, each in columns.items()}
    if task_type.packed:  # in pieces as long as the model reads: no text is too long for them
        split = EncodedSplit(data, task_type, architecture, piece=min(longest, max_length))
        return split, ReadCount(len(data), longest=int(lengths["output"].max(initial=0)))
    room = architecture.limits(max_length, task_type.level)
    most = Limits(min(room.input, longest), min(room.output, longest), room.together)
    limits = {name: getattr(most, name) for name in columns}
    too_long = np.any([lengths[side] > limits[side] for side in lengths], axis=0)
    cut = np.sum([np.minimum(lengths[side], limits[side]) for side in lengths], axis=0)
    # Where each side fits by itself: cutting at the limits does not help.
    beyond = (cut > room.together) & (len(lengths) > 1)
    over = block.length.over
    if over == "refuse" and (too_long | beyond).any():
        raise DataError(_refusal(lengths, limits, room.together, too_long | beyond, place))
    dropped = too_long | beyond if over == "drop" else beyond
    sampling = SubwordSampling(vocabularies, most, truncate=over == "truncate")
    split = EncodedSplit(
        data,
        task_type,
        architecture,
        rows=np.flatnonzero(~dropped),
        limits=limits,
        padding=None if block.padding == "batch" else block.padding,
        sampling=sampling if sampling.active else None,
    )
    return split, ReadCount(
        rows=len(too_long),
        dropped=int(dropped.sum()),
        truncated=int((too_long & ~dropped).sum()),
        longest=max(int(side.max(initial=0)) for side in lengths.values()),
    )


def _refusal(
    lengths: Mapping[str, Int[ndarray, " rows"]],
    limits: Mapping[str, int],
    together: int,
    too_long: Bool[ndarray, " rows"],
    place: Callable[[int], str],
) -> str:
    row = int(too_long.argmax())
    side = next((side for side in lengths if lengths[side][row] > limits[side]), None)
    found, limit = sum(each[row] for each in lengths.values()), together
    if side is not None:
        found, limit = lengths[side][row], limits[side]
    what = "input and output together have" if side is None else f"its {side} has"
    return (
        f"{place(row)}: {what} {found} tokens, the limit is "
        f"{limit} ({int(too_long.sum())} of {len(too_long)} examples are too long); raise "
        "model.max_length or data.length.max, or set data.length.over to drop or truncate"
    )
