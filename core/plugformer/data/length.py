"""What happens to examples that are too long: dropped, truncated or refused, and always counted."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from datasets import Dataset
from jaxtyping import Bool, Int
from numpy import ndarray

from plugformer.configuration.task import DataBlock, Length
from plugformer.data.arrow import TokenColumn
from plugformer.data.encoding import EncodedSplit, token_columns
from plugformer.data.vocabularies import SubwordSampling, Vocabularies
from plugformer.errors import DataError
from plugformer.interfaces import Architecture, Limits, TaskType


@dataclass(frozen=True)
class LengthCount:
    """What the length limit did to one split.

    Attributes:
        examples: Number of examples before.
        dropped: Number of those left out.
        truncated: Number of those shortened.
        longest: Tokens of the longest side before, special tokens not counted.
    """

    examples: int
    dropped: int
    truncated: int
    longest: int

    def __str__(self) -> str:
        parts = [f"{self.examples} examples, longest side {self.longest} tokens"]
        parts += [f"{self.dropped} dropped"] if self.dropped else []
        parts += [f"{self.truncated} truncated"] if self.truncated else []
        return ", ".join(parts)


def limited(
    data: Dataset,
    block: DataBlock,
    max_length: int,
    vocabularies: Vocabularies,
    architecture: Architecture,
    place: Callable[[int], str],
) -> tuple[EncodedSplit, LengthCount]:
    """Returns examples without those that a task drops for their length, and what was counted.

    Args:
        data: As for `EncodedSplit`.
        block: Says how long a side may be, and what is done with longer ones.
        max_length: Longest sequence that the model takes.
        vocabularies: Of the task.
        architecture: Of the task.
        place: Returns where a row stands.

    Raises:
        DataError: An example is too long and the task refuses it.
    """
    columns, task_type = token_columns(data, {}), vocabularies.task_type
    longest = block.length.max or max_length
    if task_type.packed:
        return _packed(data, min(longest, max_length), task_type, architecture, columns["output"])
    room = architecture.limits(max_length, task_type.level)
    most = Limits(min(room.input, longest), min(room.output, longest), room.together)
    limits = {name: getattr(most, name) for name in columns}
    lengths = {name: each.lengths for name, each in columns.items()}
    kept, count = _limit(lengths, limits, room.together, block.length, place)
    padding = None if block.padding == "batch" else block.padding
    sampling = SubwordSampling(vocabularies, most, truncate=block.length.over == "truncate")
    split = EncodedSplit(
        data,
        task_type,
        architecture,
        rows=kept,
        limits=limits,
        padding=padding,
        sampling=sampling if sampling.active else None,
    )
    return split, count


def _packed(
    data: Dataset, length: int, task_type: TaskType, architecture: Architecture, texts: TokenColumn
) -> tuple[EncodedSplit, LengthCount]:
    """Returns pieces as long as the model reads; no text is too long for them."""
    split = EncodedSplit(data, task_type, architecture, piece=length)
    return split, LengthCount(len(data), dropped=0, truncated=0, longest=int(texts.lengths.max(initial=0)))


def _limit(
    lengths: Mapping[str, Int[ndarray, " rows"]],
    limits: Mapping[str, int],
    together: int,
    policy: Length,
    place: Callable[[int], str],
) -> tuple[Int[ndarray, " kept"], LengthCount]:
    """Returns the rows that stay, and what was counted.

    Args:
        lengths: Tokens of each side of each row, special tokens not counted.
        limits: The most that each side may have.
        together: The most that both sides may have, where there are both.
        policy: What the task wants done with rows beyond a limit.
        place: Returns where a row stands.
    """
    too_long = np.any([lengths[side] > limits[side] for side in lengths], axis=0)
    cut = np.sum([np.minimum(lengths[side], limits[side]) for side in lengths], axis=0)
    # Where each side fits by itself: cutting at the limits does not help.
    beyond = (cut > together) & (len(lengths) > 1)
    if policy.over == "refuse" and (too_long | beyond).any():
        raise DataError(_refusal(lengths, limits, together, too_long | beyond, place))
    dropped = too_long | beyond if policy.over == "drop" else beyond
    return np.flatnonzero(~dropped), LengthCount(
        examples=len(too_long),
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
