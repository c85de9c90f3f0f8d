"""From a model and encoded examples to outputs that people read."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from plugformer.data.encoding import EncodedSplit
from plugformer.data.order import evaluation_order
from plugformer.data.vocabularies import Vocabularies
from plugformer.decoding import CachedSession, Constraint, not_finite
from plugformer.errors import ConfigurationError, RunError, described, out_of_memory
from plugformer.evaluation.computing import Computing
from plugformer.interfaces import (
    Batch,
    Decoding,
    Generative,
    Hypothesis,
    Model,
    Prediction,
    Tokenizer,
)

T = TypeVar("T")


class Predictor(ABC):
    """Answers examples with a model.

    Attributes:
        model: The model.
        computing: Size of batches, and precision.
        n_best: Outputs for each example.
    """

    model: Model
    computing: Computing
    n_best: int

    @abstractmethod
    def answer(self, batch: Batch, first: int) -> list[Prediction]:
        """Returns the outputs for one batch; `first` is the number of the split's first example."""

    def predict(
        self, split: EncodedSplit, rows: Sequence[int] | None = None, *, first: int = 0
    ) -> list[Prediction]:
        """Returns the outputs for some rows of a split, in their order; the model is in evaluation mode.

        Args:
            split: The examples.
            rows: Which of them; all if None.
            first: Number of the split's first example in the whole input, if it comes in portions: random
                choices depend on it.

        Raises:
            ConfigurationError: Less than one output is asked for, or more than there are.
            NotFiniteError: The model's scores are not finite.
        """
        if self.n_best < 1:
            raise ConfigurationError(f"{self.n_best} outputs are asked for; ask for one or more")
        rows = range(len(split)) if rows is None else rows
        answers: dict[int, Prediction] = {}
        for chosen, found in self.computed(split, rows, lambda batch: self.answer(batch, first)):
            answers.update(zip(chosen, found, strict=True))
        return [answers[row] for row in rows]

    def batches(self, split: EncodedSplit, rows: Sequence[int]) -> Iterator[Batch]:
        """Yields the batches of some rows, on the model's device."""
        device = next(self.model.parameters()).device
        for chosen in evaluation_order(split.lengths, rows, tokens=self.computing.batch_tokens):
            yield split.batch(chosen).to(device)

    def computed(
        self, split: EncodedSplit, rows: Sequence[int], compute: Callable[[Batch], T]
    ) -> Iterator[tuple[list[int], T]]:
        """Yields what is computed of batches of some rows, each with its rows.

        The model is in evaluation mode, and has the precision of its training. Where memory runs out, batches
        are halved.

        Raises:
            RunError: There is not enough memory for one example.
        """
        left = [*rows]
        while left:
            done: set[int] = set()
            for batch in self.batches(split, left):
                found = self._fitting(batch, compute)
                if found is None:
                    self.computing.halve()
                    break
                done.update(batch.rows)
                yield batch.rows, found[0]
            left = [row for row in left if row not in done]

    def _fitting(self, batch: Batch, compute: Callable[[Batch], T]) -> tuple[T] | None:
        """Returns what is computed of a batch; None if memory runs out, and the batch can be smaller."""
        try:
            with self.computing.evaluating(self.model):
                return (compute(batch),)
        except Exception as error:
            if not out_of_memory(error):
                raise
            if len(batch.rows) > 1:
                return None
            raise RunError(
                f"there is not enough memory to answer example {batch.rows[0]} alone ({described(error)})\n  "
                "limit outputs by decoding.max_length, or decoding.size of a beam; or choose another --device"
            ) from error


@dataclass(eq=False)
class Generator(Predictor):
    """Continues sequences.

    Attributes:
        model: The model.
        tokenizer: Of the outputs.
        decoding: How outputs are searched.
        constraint: What they must respect.
        computing: Size of batches, and precision.
        n_best: Outputs for each example.
    """

    model: Generative
    tokenizer: Tokenizer
    decoding: Decoding
    constraint: Constraint
    computing: Computing
    n_best: int = 1

    def search(self, batch: Batch, first: int) -> list[list[Hypothesis]]:
        """Returns each sentence's hypotheses, the best first."""
        keys = [first + row for row in batch.rows]
        return self.decoding.search(CachedSession(self.model, batch, self.constraint, keys))

    def answer(self, batch: Batch, first: int) -> list[Prediction]:
        """Returns each sentence's best hypotheses.

        Raises:
            ConfigurationError: The search finds fewer than are asked for.
            NotFiniteError: The model's scores are not finite.
        """
        found = [hypotheses[: self.n_best] for hypotheses in self.search(batch, first)]
        if (fewest := min(map(len, found))) < self.n_best:
            raise ConfigurationError(
                f"{self.n_best} outputs are asked for, but the search found {fewest} for an example; ask for "
                f"fewer, or decode with decoding.name=beam and decoding.size={self.n_best} or more"
            )
        best = [hypothesis for hypotheses in found for hypothesis in hypotheses]
        texts = self.tokenizer.decode([hypothesis.tokens for hypothesis in best])
        answers = [Prediction(text, hypothesis.score) for text, hypothesis in zip(texts, best, strict=True)]
        return [Prediction.of(answers[at : at + self.n_best]) for at in range(0, len(answers), self.n_best)]


@dataclass(eq=False)
class Reader(Predictor):
    """Predicts from what is read, as the task's type says.

    Attributes:
        model: The model.
        vocabularies: Of the task.
        computing: Size of batches, and precision.
        n_best: Answers to each example.
    """

    model: Model
    vocabularies: Vocabularies
    computing: Computing
    n_best: int = 1

    def answer(self, batch: Batch, first: int) -> list[Prediction]:
        """Returns each example's best answers.

        Raises:
            ConfigurationError: There are not so many.
            NotFiniteError: The model's scores are not finite.
        """
        known = self.vocabularies
        answers = known.task_type.answer(self.model, batch, known.tokenizers, self.n_best)
        if broken := [row for row, each in zip(batch.rows, answers, strict=True) if not _is_finite(each)]:
            raise not_finite(first + min(broken))
        return answers


def _is_finite(answer: Prediction) -> bool:
    """Returns whether the score of an answer, or a number that has none, is neither infinite nor NaN."""
    number = answer.output if answer.score is None else answer.score
    return not isinstance(number, float) or math.isfinite(number)
