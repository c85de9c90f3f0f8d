"""What happens on the validation split before a model is trained, and meanwhile."""

import math
import time
from collections.abc import Iterator, Sequence

import numpy as np

from plugformer.data.encoding import EncodedSplit
from plugformer.errors import NotFiniteError, PlugformerError
from plugformer.evaluation.evaluator import Evaluator
from plugformer.evaluation.scoring import aggregated
from plugformer.experiment import Experiment
from plugformer.hooks.specification import EvaluationResult, SampleOutput
from plugformer.interfaces import LikelihoodMetric, OutputMetric, Prediction, SourceMetric, as_text
from plugformer.registry import Kind
from plugformer.yaml_tree import Key

ASKED = 200
"""Examples whose right answers are looked at before a training, at most."""


class Validation:
    """Measures a model on the validation split again and again.

    Args:
        evaluator: Holds the model.
        split: The validation split.
        limit: Examples that are decoded for the metrics of outputs, evenly spread over the split, whose order
            may be one of length; all if None. Figures that need no decoding use all; without a metric of
            outputs, only examples that are shown are decoded.
        samples: Number of decoded examples that are shown, evenly spread, too.
    """

    def __init__(self, evaluator: Evaluator, split: EncodedSplit, *, limit: int | None, samples: int) -> None:
        self.evaluator = evaluator
        self.split = split
        decoded = spread(range(len(split)), limit)
        self.shown = spread(decoded, samples)
        self.rows = decoded if evaluator.output_metrics else self.shown

    def evaluate(self, step: int) -> EvaluationResult:
        """Returns all figures after so many updates.

        Raises:
            NotFiniteError: The loss is infinite or no number; no output would mean anything.
        """
        started = time.perf_counter()
        right = self.evaluator.likelihoods(self.split)
        if not math.isfinite(right.loss):
            raise NotFiniteError(f"the validation loss after update {step} is {right.loss}")
        predictions = self.evaluator.answers(self.split, self.rows)
        return EvaluationResult(
            step=step,
            loss=right.loss,
            token_accuracy=right.token_accuracy,
            metrics=self.evaluator.values(self.split, self.rows, predictions, right),
            samples=self._samples(self.rows, predictions),
            best=False,
            seconds=time.perf_counter() - started,
        )

    def samples(self) -> list[SampleOutput]:
        """Returns the model's answers to a few examples."""
        return self._samples(self.shown, self.evaluator.answers(self.split, self.shown))

    def _samples(self, rows: Sequence[int], predictions: Sequence[Prediction]) -> list[SampleOutput]:
        outputs = {row: prediction.text for row, prediction in zip(rows, predictions, strict=True)}
        return [
            SampleOutput(self.split.input(row), as_text(self.split.references(row)[0]), outputs[row])
            for row in self.shown
        ]


def spread(rows: Sequence[int], count: int | None) -> Sequence[int]:
    """Returns so many rows, evenly spread and beginning with the first; all if there are no more."""
    if count is None or count >= len(rows):
        return rows
    return [rows[number * len(rows) // count] for number in range(count)]


def unscored(experiment: Experiment, split: EncodedSplit) -> Iterator[tuple[tuple[Key, ...], str]]:
    """Yields metrics that refuse right answers, such as tags in another scheme, and what they say.

    It is asked before a training, not at its first evaluation. Some fail only as they aggregate, such as a
    module that cannot be loaded, or one that returns no number.

    Args:
        experiment: Has the metrics.
        split: Its validation examples.
    """
    rows = spread(range(len(split)), ASKED)
    references = [split.references(row) for row in rows]
    answers = [each[0] for each in references]
    sources = [split.input(row) for row in rows]
    certain = np.ones(len(rows), dtype=np.int64)
    for index, block in enumerate(experiment.task.evaluation.metrics):
        metric = experiment.create(Kind.METRIC, block)
        try:
            if isinstance(metric, OutputMetric):
                aggregated(metric, answers, references)
            elif isinstance(metric, SourceMetric):
                aggregated(metric, sources, answers, references)
            elif isinstance(metric, LikelihoodMetric):
                aggregated(metric, -0.1 * certain, certain, certain)
        except PlugformerError as error:
            yield ("evaluation", "metrics", index), str(error)
