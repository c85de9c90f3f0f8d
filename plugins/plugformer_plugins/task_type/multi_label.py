"""Multi-label classification: any number of labels for a text, or for several texts together."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Annotated

from pydantic import Field
from torch.nn.functional import logsigmoid

from plugformer.interfaces import Batch, Column, Model, OutputType, Prediction, Tokenizers
from plugformer_plugins.task_type.labels import number_of, refuse_alternatives
from plugformer_plugins.task_type.texts import PredictionFromTexts, TextColumns

if TYPE_CHECKING:
    from datasets import Dataset


class MultiLabel(PredictionFromTexts):
    """Assigns any number of labels to a text, or to several texts together.

    See https://scikit-learn.org/stable/modules/multiclass.html#multilabel-classification.

    Args:
        inputs: Columns with the texts; of several the model reads one after the other, END between them.
        threshold: Probability from which a label applies.
    """

    output_type = OutputType.LABELS
    state_type = list[str]
    baselines = ("majority", "bag_of_words")
    output = Column("labels", "labels", "output")

    def __init__(
        self,
        *,
        inputs: TextColumns = ["text"],  # noqa: B006 (pydantic copies it)
        threshold: Annotated[float, Field(gt=0, lt=1)] = 0.5,
    ) -> None:
        super().__init__(inputs=inputs)
        self._threshold = threshold

    def learn(self, train: "Dataset") -> list[str]:
        """Returns the labels, sorted."""
        return sorted(set(chain.from_iterable(train["labels"])))

    def target(self, row: int, value: Sequence[str]) -> list[float]:
        """Returns for each label 1 if it applies and 0 if not.

        Raises:
            ExampleError: A label is none of the training examples'.
        """
        numbers = {number_of(label, self.state, row, "label") for label in value}
        return [float(number in numbers) for number in range(self.outputs)]

    def answer(self, model: Model, batch: Batch, tokenizers: Tokenizers, n_best: int) -> list[Prediction]:
        """Returns the labels that apply, and the probability that these do and the others do not."""
        answers = self.answer_with_probabilities(model, batch, tokenizers, n_best)
        return [replace(answer, probabilities=None) for answer in answers]

    def answer_with_probabilities(
        self, model: Model, batch: Batch, tokenizers: Tokenizers, n_best: int
    ) -> list[Prediction]:
        """Returns the same, with the probability that each label applies."""
        refuse_alternatives(n_best, "labels have")
        logits = model.logits(batch).float()
        likely = logits.sigmoid()
        applies = likely >= self._threshold
        scores = logsigmoid(logits.where(applies, -logits)).sum(dim=-1)
        return [
            Prediction(
                [label for label, chosen in zip(self.state, row, strict=True) if chosen],
                score,
                probabilities=dict(zip(self.state, each, strict=True)),
            )
            for row, score, each in zip(applies.tolist(), scores.tolist(), likely.tolist(), strict=True)
        ]
