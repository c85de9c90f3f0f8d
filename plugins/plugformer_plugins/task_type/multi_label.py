"""Multi-label classification: any number of labels for a text, or for several texts together."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field
from torch.nn.functional import logsigmoid

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


class MultiLabel(TaskType):
    """Says of each label whether it applies.

    Args:
        inputs: Columns with the texts; of several the model reads one after the other, END between them.
        threshold: Probability from which a label applies.
    """

    level = Level.SEQUENCE
    answer_type = Answer.LABELS
    learned_type = list[str]

    def __init__(
        self,
        *,
        inputs: Annotated[
            list[str], Field(min_length=1, description="Columns with the texts, read one after the other.")
        ] = ["text"],  # noqa: B006 (pydantic copies it)
        threshold: Annotated[
            float, Field(gt=0, lt=1, description="Probability from which a label applies.")
        ] = 0.5,
    ) -> None:
        self._inputs = inputs
        self._threshold = threshold

    @property
    def columns(self) -> tuple[Column, ...]:
        """The texts and the labels."""
        return (*text_columns(self._inputs), Column("labels", "labels", "output"))

    def learn(self, train: "Dataset") -> list[str]:
        """Returns the labels, sorted."""
        return sorted(set(chain.from_iterable(train["labels"])))

    @property
    def outputs(self) -> int:
        """Number of labels."""
        return len(self.learned)

    def encode(self, examples: Examples, tokenizers: Tokenizers) -> Mapping[str, Sequence[Any]]:
        """Returns the tokens of the texts, and for each label 1 if it applies and 0 if not.

        Raises:
            ExampleError: A label is none of the training examples'.
        """
        encoded: dict[str, Sequence[Any]] = {"input": encode_texts(examples, self._inputs, tokenizers)}
        if "labels" in examples:
            encoded["targets"] = [
                self._indicators(row, labels) for row, labels in enumerate(examples["labels"])
            ]
        return encoded

    def answer(
        self,
        model: Model,
        batch: Batch,
        tokenizers: Tokenizers,  # noqa: ARG002
        n_best: int,
    ) -> list[Prediction]:
        """Returns the labels that apply, and the probability that these do and the others do not."""
        if n_best > 1:
            raise ConfigurationError(
                f"{n_best} outputs are asked for, but labels have no alternatives; ask for one"
            )
        logits = model.logits(batch).float()
        applies = logits.sigmoid() >= self._threshold
        scores = logsigmoid(logits.where(applies, -logits)).sum(dim=-1)
        return [
            Prediction([label for label, chosen in zip(self.learned, row, strict=True) if chosen], score)
            for row, score in zip(applies.tolist(), scores.tolist(), strict=True)
        ]

    def question(self, text: str) -> Example:
        """Returns a text, or the several between tabs, by column."""
        return split_question(text, self._inputs)

    def _indicators(self, row: int, labels: Sequence[str]) -> list[float]:
        for label in labels:
            if label not in self.learned:
                raise ExampleError(
                    row,
                    f"unknown label {label!r}{nearest(label, self.learned)}; the labels are {self.learned}",
                )
        return [float(label in labels) for label in self.learned]
