"""What a task's model will look like, before any training."""

from dataclasses import replace

import numpy as np

from plugformer.data.preparation import PreparedData
from plugformer.errors import DataError
from plugformer.experiment import Experiment
from plugformer.hooks.manager import prepared_data
from plugformer.interfaces import UNKNOWN, Batch, Encoded, Level, Ragged, Sizes
from plugformer.model import build
from plugformer.model.summary import ModuleSummary, summarize

ASSUMED = Sizes(source=8000, outputs=8000)
"""Sizes of vocabularies that are not there yet, where no option of their tokenizers says more."""

ASSUMED_LENGTH = 32


def preview_model(experiment: Experiment, *, read_data: bool) -> tuple[list[ModuleSummary], str]:
    """Returns the modules of a task's model, which nobody has trained, with costs for one example.

    Args:
        experiment: A validated task.
        read_data: Read the data, or the prepared examples in the cache, for the sizes of the vocabularies.

    Returns:
        The modules; and words about the example and the vocabularies: of median length, or assumed where the
        task's data are not, or cannot be, read.
    """
    if not read_data:
        return _assumed_preview(experiment, "assumed; --data reads the data")
    try:
        data = prepared_data(experiment)
    except DataError as error:
        cause = str(error).splitlines()[0]
        return _assumed_preview(experiment, f"assumed, because the data cannot be read ({cause})")
    name, batch = median_example(data)
    return _summarized(experiment, data.processor.sizes, batch, f"of the split {name}")


def _assumed_preview(experiment: Experiment, origin: str) -> tuple[list[ModuleSummary], str]:
    """Does the same without data."""
    blocks = experiment.task.tokenizer
    source, target = (block.options.get("size") for block in (blocks.source, blocks.target))
    sizes = Sizes(
        source=source if isinstance(source, int) else ASSUMED.source,
        outputs=target if isinstance(target, int) else ASSUMED.outputs,
    )
    return _summarized(experiment, sizes, _assumed(experiment), origin)


def _summarized(
    experiment: Experiment, sizes: Sizes, batch: Batch, origin: str
) -> tuple[list[ModuleSummary], str]:
    model = build(experiment.spec, sizes)
    lengths = f"{batch.source.count} source and {batch.target.count} target tokens"
    words = f"one example of {lengths}; {sizes.source:,} input tokens, {sizes.outputs:,} outputs ({origin})"
    return summarize(model, batch), words


def median_example(data: PreparedData) -> tuple[str, Batch]:
    """Returns a training example of median length, and its split: validation where training is streamed."""
    name = "train" if "train" in data.splits else "validation"
    totals = data.splits[name].lengths.sum(axis=1)
    median = int(np.argsort(totals, kind="stable")[len(totals) // 2])
    return name, data.splits[name].batch([median])


def _assumed(experiment: Experiment) -> Batch:
    task_type = experiment.task_type
    tokens = Ragged.of([[UNKNOWN] * ASSUMED_LENGTH])
    reads = any(column.role == "input" for column in task_type.columns)
    targets = {
        Level.NEXT_TOKEN: None,
        Level.TOKEN: replace(tokens, values=np.zeros_like(tokens.values)),
        Level.SEQUENCE: np.zeros(1, dtype=np.int64),
    }[task_type.level]
    continued = task_type.level is Level.NEXT_TOKEN
    encoded = Encoded(tokens if reads else None, tokens if continued else None, targets)
    return replace(experiment.architecture.collate(encoded, task_type.level), rows=[0])
