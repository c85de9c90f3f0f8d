"""Classification: one of several classes for a text, or for several texts together."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from plugformer.errors import ConfigurationError, ExampleError, nearest
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


class Classification(TaskType):
    """Chooses one of the classes of the training examples.

    Args:
        inputs: Columns with the texts; of several the model reads one after the other, END between them, as
            of a premise and a hypothesis.
    """

    level = Level.SEQUENCE
    answer_type = Answer.LABEL
    learned_type = list[str]

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
        """The texts and the label."""
        return (*text_columns(self._inputs), Column("label", "label", "output"))

    def learn(self, train: "Dataset") -> list[str]:
        """Returns the names of the classes, in order."""
        return list(train.features["label"].names)

    @property
    def outputs(self) -> int:
        """Number of classes."""
        return len(self.learned)

    def encode(self, examples: Examples, tokenizers: Tokenizers) -> Mapping[str, Sequence[Any]]:
        """Returns the tokens of the texts, and the numbers of the labels.

        Raises:
            ExampleError: A label is none of the classes.
        """
        encoded: dict[str, Sequence[Any]] = {"input": encode_texts(examples, self._inputs, tokenizers)}
        if "label" in examples:
            encoded["targets"] = [self._number(row, label) for row, label in enumerate(examples["label"])]
        return encoded

    def answer(
        self,
        model: Model,
        batch: Batch,
        tokenizers: Tokenizers,  # noqa: ARG002
        n_best: int,
    ) -> list[Prediction]:
        """Returns the most probable classes."""
        if n_best > len(self.learned):
            raise ConfigurationError(
                f"{n_best} outputs are asked for, but there are {len(self.learned)} labels; ask for fewer"
            )
        scores, classes = model.logits(batch).log_softmax(dim=-1).topk(n_best, dim=-1)
        return [
            Prediction.of([Prediction(self.learned[one], score) for one, score in zip(*row, strict=True)])
            for row in zip(classes.tolist(), scores.tolist(), strict=True)
        ]

    def question(self, text: str) -> Example:
        """Returns a text, or the several between tabs, by column."""
        return split_question(text, self._inputs)

    def _number(self, row: int, label: str) -> int:
        try:
            number: int = self.learned.index(label)
        except ValueError:
            raise ExampleError(
                row, f"unknown label {label!r}{nearest(label, self.learned)}; the classes are {self.learned}"
            ) from None
        return number
