"""What happens on the validation split while a model is trained."""

import math
import time
from collections.abc import Sequence

from plugformer.data.encoding import EncodedSplit
from plugformer.errors import NotFiniteError
from plugformer.evaluation.evaluator import Evaluator
from plugformer.evaluation.predictor import Prediction
from plugformer.hooks.specification import Evaluation, Sample


class Validation:
    """Measures a model on the validation split again and again.

    Args:
        evaluator: Holds the model.
        split: The validation split.
        limit: Examples that are decoded for the metrics of outputs; all if None. Figures that need no
            decoding use all; without a metric of outputs, only examples that are shown are decoded.
        samples: Number of examples that are shown.
    """

    def __init__(self, evaluator: Evaluator, split: EncodedSplit, *, limit: int | None, samples: int) -> None:
        self.evaluator = evaluator
        self.split = split
        self.shown = range(len(split))[:limit][:samples]
        self.rows = range(len(split))[:limit] if evaluator.output_metrics else self.shown

    def evaluate(self, step: int) -> Evaluation:
        """Returns all figures after so many updates.

        Raises:
            NotFiniteError: The loss is infinite or no number; no output would mean anything.
        """
        started = time.perf_counter()
        right = self.evaluator.likelihoods(self.split)
        if not math.isfinite(right.loss):
            raise NotFiniteError(f"the validation loss after update {step} is {right.loss}")
        predictions = self.evaluator.answers(self.split, self.rows)
        return Evaluation(
            step=step,
            loss=right.loss,
            token_accuracy=right.token_accuracy,
            metrics=self.evaluator.values(self.split, self.rows, predictions, right),
            samples=self._samples(predictions),
            best=False,
            seconds=time.perf_counter() - started,
        )

    def samples(self) -> list[Sample]:
        """Returns what the model answers to a few examples."""
        return self._samples(self.evaluator.answers(self.split, self.shown))

    def _samples(self, predictions: Sequence[Prediction]) -> list[Sample]:
        return [
            Sample(self.split.input(row), self.split.references(row)[0], prediction.output)
            for row, prediction in zip(self.shown, predictions, strict=False)
        ]
