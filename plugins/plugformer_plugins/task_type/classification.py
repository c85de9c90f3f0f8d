"""Classification: one of several classes for a text, or for several texts together."""

from dataclasses import replace
from typing import TYPE_CHECKING

from plugformer.errors import ConfigurationError
from plugformer.interfaces import Batch, Column, Model, OutputType, Prediction, Tokenizers
from plugformer_plugins.task_type.labels import number_of
from plugformer_plugins.task_type.texts import PredictionFromTexts, TextColumns

if TYPE_CHECKING:
    from datasets import Dataset


class Classification(PredictionFromTexts):
    """Assigns one of several classes to a text, or to several texts together.

    Chooses one of the classes of the training examples.
    See https://arxiv.org/abs/1810.04805.

    Args:
        inputs: Columns with the texts. For a single one `model.token_dropout` is 0.3 unless a task says it.
    """

    output_type = OutputType.LABEL
    state_type = list[str]
    baselines = ("majority", "bag_of_words")
    output = Column("label", "label", "output")

    def __init__(self, *, inputs: TextColumns = ["text"]) -> None:  # noqa: B006 (pydantic copies it)
        super().__init__(inputs=inputs)
        self.token_dropout = 0.3 if len(inputs) == 1 else 0.0

    def learn(self, train: "Dataset") -> list[str]:
        """Returns the names of the classes, in order."""
        return list(train.features["label"].names)

    def target(self, row: int, value: str) -> int:
        """Returns the number of a label.

        Raises:
            ExampleError: It is none of the classes.
        """
        return number_of(value, self.state, row, "label")

    def answer(self, model: Model, batch: Batch, tokenizers: Tokenizers, n_best: int) -> list[Prediction]:
        """Returns the most probable classes."""
        if n_best > len(self.state):
            raise ConfigurationError(
                f"n_best is {n_best}, but there are only {len(self.state)} labels; use a smaller n_best"
            )
        scores, classes = model.logits(batch).log_softmax(dim=-1).topk(n_best, dim=-1)
        return [
            Prediction.of([Prediction(self.state[one], score) for one, score in zip(*row, strict=True)])
            for row in zip(classes.tolist(), scores.tolist(), strict=True)
        ]

    def answer_with_probabilities(
        self, model: Model, batch: Batch, tokenizers: Tokenizers, n_best: int
    ) -> list[Prediction]:
        """Returns the most probable classes, with the probability of each class."""
        ranked = self.answer(model, batch, tokenizers, max(n_best, len(self.state)))
        found = []
        for best in ranked:
            by_name = {each.output: each.probability or 0.0 for each in (best, *best.alternatives)}
            probabilities = {name: by_name[name] for name in self.state}
            found.append(
                replace(best, alternatives=best.alternatives[: n_best - 1], probabilities=probabilities)
            )
        return found
