"""What a task's model will look like, before any training."""

from dataclasses import dataclass, replace

import numpy as np

from plugformer.configuration import ResolvedTask
from plugformer.creation import create_architecture, create_task_type
from plugformer.data.preparation import PreparedData, prepare
from plugformer.errors import DataError
from plugformer.interfaces import UNKNOWN, Batch, Encoded, Level, Ragged, Sizes
from plugformer.model.assembly import assemble
from plugformer.model.summary import Row, summarize

ASSUMED = Sizes(source=8000, outputs=8000)
"""Sizes of vocabularies that are not there yet."""

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
        sizes, batch = ASSUMED, _assumed(resolved)
        origin = f"assumed, because the data cannot be read ({str(error).splitlines()[0]})"
    model = assemble(resolved.task, sizes, resolved.registry)
    lengths = f"{batch.source.count} source and {batch.target.count} target tokens"
    words = f"one example of {lengths}; {sizes.source:,} input tokens, {sizes.outputs:,} outputs ({origin})"
    return Preview(summarize(model, batch), words)


def _measured(resolved: ResolvedTask) -> tuple[Sizes, Batch, str]:
    data = prepare(resolved.task, resolved.registry)
    name, batch = median_example(data)
    return data.vocabularies.sizes, batch, f"of the split {name}"


def median_example(data: PreparedData) -> tuple[str, Batch]:
    """Returns a training example of median length, and its split: validation where training is streamed."""
    name = "validation" if data.streamed else "train"
    totals = data.splits[name].lengths.sum(axis=1)
    median = int(np.argsort(totals, kind="stable")[len(totals) // 2])
    return name, data.splits[name].batch([median])


def _assumed(resolved: ResolvedTask) -> Batch:
    task_type = create_task_type(resolved.task, resolved.registry)
    tokens = Ragged.of([[UNKNOWN] * ASSUMED_LENGTH])
    reads = any(column.role == "input" for column in task_type.columns)
    targets = {
        Level.NEXT_TOKEN: None,
        Level.TOKEN: replace(tokens, values=np.zeros_like(tokens.values)),
        Level.SEQUENCE: np.zeros(1, dtype=np.int64),
    }[task_type.level]
    continued = task_type.level is Level.NEXT_TOKEN
    encoded = Encoded(tokens if reads else None, tokens if continued else None, targets)
    architecture = create_architecture(resolved.task, resolved.registry)
    return replace(architecture.arrange(encoded, task_type.level), rows=[0])
