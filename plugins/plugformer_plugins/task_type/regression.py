"""Regression: a number for a text, or for several texts together."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from plugformer.errors import ConfigurationError
from plugformer.interfaces import (
    Answer,
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
from plugformer_plugins.task_type.texts import encode_texts, split_question, text_columns

if TYPE_CHECKING:
    from datasets import Dataset


class Regression(TaskType):
    """Predicts a number. The model learns it less the mean of the training examples, over their deviation.

    Args:
        inputs: Columns with the texts; of several the model reads one after the other, END between them.
    """

    level = Level.SEQUENCE
    answer_type = Answer.NUMBER
    learned_type = dict[str, float]

    def __init__(
        self,
        *,
        inputs: Annotated[
            list[str], Field(min_length=1, description="Columns with the texts, read one after the other.")
        ] = ["text"],  # noqa: B006 (pydantic copies it)
    ) -> None:
        self._inputs = inputs

    @property
    def columns(self) -> tuple[Column, ...]:
        """The texts and the number."""
        return (*text_columns(self._inputs), Column("number", "number", "output"))

    def learn(self, train: "Dataset") -> dict[str, float]:
        """Returns mean and deviation of the numbers; a deviation of 1 if they are all the same."""
        numbers = np.asarray(train["number"], dtype=np.float64)
        return {"mean": float(numbers.mean()), "deviation": float(numbers.std()) or 1.0}

    @property
    def outputs(self) -> int:
        """One."""
        return 1

    def encode(self, examples: Examples, tokenizers: Tokenizers) -> Mapping[str, Sequence[Any]]:
        """Returns the tokens of the texts, and the numbers as the model learns them."""
        encoded: dict[str, Sequence[Any]] = {"input": encode_texts(examples, self._inputs, tokenizers)}
        if "number" in examples:
            mean, deviation = self.learned["mean"], self.learned["deviation"]
            encoded["targets"] = [(number - mean) / deviation for number in examples["number"]]
        return encoded

    def answer(
        self,
        model: Model,
        batch: Batch,
        tokenizers: Tokenizers,  # noqa: ARG002
        n_best: int,
    ) -> list[Prediction]:
        """Returns the number of each example."""
        if n_best > 1:
            raise ConfigurationError(
                f"{n_best} outputs are asked for, but a number has no alternatives; ask for one"
            )
        mean, deviation = self.learned["mean"], self.learned["deviation"]
        return [
            Prediction(number * deviation + mean) for number in model.logits(batch)[:, 0].double().tolist()
        ]

    def question(self, text: str) -> Example:
        """Returns a text, or the several between tabs, by column."""
        return split_question(text, self._inputs)
