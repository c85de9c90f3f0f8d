"""Regression: a number for a text, or for several texts together."""

from typing import TYPE_CHECKING

import numpy as np

from plugformer.interfaces import Batch, Column, Model, OutputType, Prediction, Tokenizers
from plugformer_plugins.task_type.labels import refuse_alternatives
from plugformer_plugins.task_type.texts import PredictionFromTexts

if TYPE_CHECKING:
    from datasets import Dataset


class Regression(PredictionFromTexts):
    """Predicts a number for a text, or for several texts together.

    The model learns it less the mean of the training examples, over their deviation.
    See https://aclanthology.org/S14-2001.
    """

    output_type = OutputType.NUMBER
    state_type = dict[str, float]
    baselines = ("mean", "bag_of_words")
    output = Column("number", "number", "output")

    def learn(self, train: "Dataset") -> dict[str, float]:
        """Returns mean and deviation of the numbers; a deviation of 1 if they are all the same."""
        numbers = np.asarray(train["number"], dtype=np.float64)
        # Rounding can give equal numbers a deviation, a tiny one; that of tiny numbers can be rounded to 0.
        deviation = float(numbers.std()) if np.ptp(numbers) else 0.0
        return {"mean": float(numbers.mean()), "deviation": deviation or 1.0}

    @property
    def outputs(self) -> int:
        """One."""
        return 1

    def target(self, row: int, value: float) -> float:
        """Returns a number as the model learns it."""
        return float((value - self.state["mean"]) / self.state["deviation"])

    def answer(self, model: Model, batch: Batch, tokenizers: Tokenizers, n_best: int) -> list[Prediction]:
        """Returns the number of each example."""
        refuse_alternatives(n_best, "a number has")
        mean, deviation = self.state["mean"], self.state["deviation"]
        return [Prediction(number * deviation + mean) for number in model.logits(batch)[:, 0].tolist()]
