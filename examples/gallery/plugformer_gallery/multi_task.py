"""Two tasks at once: a label and a number for a text."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from plugformer.errors import ConfigurationError, ExampleError, nearest
from plugformer.interfaces import (
    Batch,
    Column,
    Example,
    Examples,
    Level,
    Model,
    Prediction,
    TaskType,
    Tokenizers,
)

if TYPE_CHECKING:
    from datasets import Dataset

LABEL_AND_NUMBER = "label and number"
"""What answers are: a mapping with both."""


class LabelAndNumber(TaskType):
    """Predicts a class and a number of a text with one model: MT-DNN, Liu et al. 2019, section 3.

    https://arxiv.org/abs/1901.11504. The model learns the number less the mean of the training examples, over
    their deviation.
    """

    level = Level.SEQUENCE
    output_type = LABEL_AND_NUMBER
    state_type = dict[str, list[str] | float]
    columns = (
        Column("text", "text", "input", tokenizer="source"),
        Column("label", "label", "output"),
        Column("number", "number", "output"),
    )

    def learn(self, train: "Dataset") -> dict[str, list[str] | float]:
        """Returns the names of the classes in order, and mean and deviation of the numbers."""
        numbers = np.asarray(train["number"], dtype=np.float64)
        mean, deviation = float(numbers.mean()), float(numbers.std()) if np.ptp(numbers) else 1.0
        return {"labels": list(train.features["label"].names), "mean": mean, "deviation": deviation}

    @property
    def outputs(self) -> int:
        """Number of classes, and one for the number."""
        return len(self.state["labels"]) + 1

    def encode(self, examples: Examples, tokenizers: Tokenizers) -> Mapping[str, Sequence[Any]]:
        """Returns the tokens of texts; their targets are pairs of a class and a number.

        Raises:
            ExampleError: A label is none of the classes.
        """
        encoded: dict[str, Sequence[Any]] = {"input": tokenizers.source.encode(examples["text"])}
        if "label" in examples:
            mean, deviation, labels = (self.state[name] for name in ("mean", "deviation", "labels"))
            for row, label in enumerate(examples["label"]):
                if label not in labels:
                    raise ExampleError(
                        row, f"unknown label {label!r}{nearest(label, labels)}; the classes are {labels}"
                    )
            encoded["targets"] = [
                [float(labels.index(label)), (number - mean) / deviation]
                for label, number in zip(examples["label"], examples["number"], strict=True)
            ]
        return encoded

    def answer(
        self,
        model: Model,
        batch: Batch,
        tokenizers: Tokenizers,  # noqa: ARG002
        n_best: int,
    ) -> list[Prediction]:
        """Returns the most probable class and the number of each text."""
        if n_best > 1:
            raise ConfigurationError(f"{n_best} outputs are asked for, but a number has no alternatives")
        logits = model.logits(batch).double()
        classes = logits[:, :-1].argmax(dim=-1)
        numbers = logits[:, -1] * self.state["deviation"] + self.state["mean"]
        return [
            Prediction({"label": self.state["labels"][label], "number": number})
            for label, number in zip(classes.tolist(), numbers.tolist(), strict=True)
        ]

    def references(self, example: Example) -> list[Any]:
        """Returns the class and the number of an example."""
        return [{"label": example["label"], "number": example["number"]}]
