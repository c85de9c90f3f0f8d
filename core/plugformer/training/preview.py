"""What a task's model will look like, before any training."""

from dataclasses import dataclass

import numpy as np
import torch

from plugformer.configuration import ResolvedTask
from plugformer.interfaces.batch import Batch, Ragged, collate_labelled, collate_pairs
from plugformer.data.preparation import PreparedData, prepare
from plugformer.errors import DataError
from plugformer.interfaces import UNKNOWN, TaskType
from plugformer.model.assembly import Sizes, assemble
from plugformer.model.summary import Row, summarize
from plugformer.runs.vocabularies import Vocabularies

ASSUMED = Sizes(source=8000, outputs=8000)
ASSUMED_LENGTH = 32


@dataclass(frozen=True)
class Preview:
    """A model that nobody has trained.

    Attributes:
        rows: Its modules; shapes and operations are those of a single example.
        example: Words about that example and the vocabularies: measured, or assumed.
    """

    rows: list[Row]
    example: str


def preview(resolved: ResolvedTask) -> Preview:
    """Returns the model of a task and its costs for an example of median length.

    Where the task's data cannot be read, vocabularies and lengths are assumed, and `example` says so.

    Args:
        resolved: A validated task.
    """
    try:
        sizes, batch, origin = _measured(resolved)
    except DataError as error:
        sizes, batch = ASSUMED, _assumed(TaskType(resolved.task.type))
        origin = f"assumed, because the data cannot be read ({str(error).splitlines()[0]})"
    model = assemble(resolved.task, sizes, resolved.registry)
    lengths = f"{batch.source.count} source and {batch.target.count} target tokens"
    words = f"one example of {lengths}; {sizes.source:,} input tokens, {sizes.outputs:,} outputs ({origin})"
    return Preview(summarize(model, batch), words)


def _measured(resolved: ResolvedTask) -> tuple[Sizes, Batch, str]:
    data = prepare(resolved.task, resolved.registry)
    name, batch = median_example(data)
    return Vocabularies.of(data).sizes, batch, f"of the split {name}"


def median_example(data: PreparedData) -> tuple[str, Batch]:
    """Returns a training example of median length, and its split: validation where training is streamed."""
    name = "validation" if data.streamed else "train"
    totals = data.splits[name].lengths.sum(axis=1)
    median = int(np.argsort(totals, kind="stable")[len(totals) // 2])
    return name, data.splits[name].batch([median])


def _assumed(task_type: TaskType) -> Batch:
    tokens = Ragged.of([[UNKNOWN] * ASSUMED_LENGTH])
    if task_type is TaskType.SEQUENCE_TO_SEQUENCE:
        return collate_pairs(tokens, tokens, [0])
    return collate_labelled(tokens, torch.zeros(1, dtype=torch.int64).numpy(), [0])
