"""What is done when a task says `data.streaming`."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from plugformer.hooks import hookimpl, must_not_fail

if TYPE_CHECKING:
    from plugformer.data import PreparedData, Processor
    from plugformer.experiment import Experiment


@hookimpl
@must_not_fail
def streamed_data(experiment: "Experiment", processor: "Processor | None") -> "PreparedData | None":
    """Prepares all splits but `train` if the task says so.

    Raises:
        ConfigurationError: The data cannot be streamed.
        DataError: A split or a file is missing, or a row is malformed.
    """
    streaming = experiment.task.data.streaming
    if streaming is None:
        return None
    # Here, so that predictions do not wait for libraries of data.
    from plugformer.data import prepare
    from plugformer_streaming.batches import StreamedBatches
    from plugformer_streaming.examples import StreamedExamples, open_streams, stored

    streams = open_streams(experiment)
    prepared = prepare(
        experiment, processor, partial(stored, streams, experiment, streaming.tokenizer_examples)
    )
    validation, buffer = prepared.splits["validation"], streaming.buffer
    sample = validation.select(np.resize(np.arange(len(validation)), buffer).tolist())
    examples = StreamedExamples(streams["train"], experiment, prepared.processor, buffer, sample)
    return replace(prepared, batches=partial(StreamedBatches, examples))
