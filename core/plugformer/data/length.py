"""Examples that are too long are dropped, truncated or refused, and always counted."""

from collections.abc import Callable, Mapping

import numpy as np
from datasets import Dataset
from jaxtyping import Bool, Int
from numpy import ndarray

from plugformer.configuration.task import Task
from plugformer.data.arrow import encoded_examples
from plugformer.data.encoding import EncodedSplit
from plugformer.data.processor import Processor, SubwordSampling
from plugformer.data.split_stats import SplitStats
from plugformer.errors import DataError
from plugformer.interfaces import Architecture, Limits


def limited(
    data: Dataset,
    task: Task,
    processor: Processor,
    architecture: Architecture,
    place: Callable[[int], str],
) -> tuple[EncodedSplit, SplitStats]:
    """Returns examples without those that a task drops for their length, and their counts.

    Args:
        data: Examples with columns of numbers.
        task: Has the limits.
        processor: Of the task.
        architecture: Of the task.
        place: Names a row for error messages.

    Raises:
        DataError: An example is too long and the task refuses it.
    """
    task_type = processor.task_type
    examples = encoded_examples(data, task_type.level)
    block, max_length = task.data, task.model.max_length
    longest = block.length.max or max_length
    lengths = {name: column.lengths for name, column in examples.tokens.items()}
    if task_type.packed:  # no text is too long for pieces
        split = EncodedSplit(examples, task_type, architecture, piece=min(longest, max_length))
        return split, SplitStats(len(data), longest=int(lengths["output"].max(initial=0)))
    room = architecture.limits(max_length, task_type.level)
    most = Limits(min(room.input, longest), min(room.output, longest), room.together)
    limits = {name: getattr(most, name) for name in lengths}
    too_long = np.any([lengths[side] > limits[side] for side in lengths], axis=0)
    cut = np.sum([np.minimum(lengths[side], limits[side]) for side in lengths], axis=0)
    # Each side fits by itself, so that cutting at the limits does not help.
    beyond = (cut > room.together) & (len(lengths) > 1)
    over = block.length.over
    if over == "refuse" and (too_long | beyond).any():
        raise DataError(_refusal(lengths, limits, room.together, too_long | beyond, place))
    dropped = too_long | beyond if over == "drop" else beyond
    sampling = SubwordSampling(processor, most, truncate=over == "truncate")
    split = EncodedSplit(
        examples,
        task_type,
        architecture,
        rows=np.flatnonzero(~dropped),
        limits=limits,
        padding=None if block.padding == "batch" else block.padding,
        sampling=sampling if sampling.active else None,
    )
    return split, SplitStats(
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
    if side is None:
        tokens, limit, subject = (
            sum(numbers[row] for numbers in lengths.values()),
            together,
            "input and output together have",
        )
    else:
        tokens, limit, subject = lengths[side][row], limits[side], f"its {side} has"
    return (
        f"{place(row)}: {subject} {tokens} tokens, the limit is "
        f"{limit} ({int(too_long.sum())} of {len(too_long)} examples are too long); raise "
        "model.max_length or data.length.max, or set data.length.over to drop or truncate"
    )
