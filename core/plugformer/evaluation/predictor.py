"""From a model and encoded examples to outputs that people read."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from plugformer.interfaces.batch import Batch
from plugformer.data.encoding import EncodedSplit
from plugformer.data.order import evaluation_order
from plugformer.decoding import CachedSession, Constraint, ModelSession, not_finite
from plugformer.errors import ConfigurationError
from plugformer.interfaces import Decoding, Hypothesis, Tokenizer
from plugformer.interfaces.model import EncoderDecoder, EncoderOnly, Model, evaluating


@dataclass(frozen=True)
class Prediction:
    """An output and its score: the natural logarithm of its probability under the model.

    Attributes:
        output: Text, or the name of a class.
        score: The logarithm.
        alternatives: Further outputs, the best first, if more than one is asked for.
        truncated: Whether the model has read only the beginning of the text, which is too long.
        unknown: Parts of the text that the vocabulary cannot spell, so that the model has not read them.
    """

    output: str
    score: float
    alternatives: tuple["Prediction", ...] = ()
    truncated: bool = False
    unknown: tuple[str, ...] = ()

    @property
    def probability(self) -> float:
        """Probability of the whole output under the model, from 0 to 1."""
        return math.exp(min(self.score, 0.0))  # rounding may leave the logarithm of 1 a little above 0

    @classmethod
    def of(cls, ranked: "Sequence[Prediction]") -> "Prediction":
        """Returns the first of several, the others its alternatives."""
        return replace(ranked[0], alternatives=tuple(ranked[1:]))


class Predictor(ABC):
    """Answers examples with a model; what kind of answer is a subclass's matter.

    Args:
        batch_tokens: Source and target positions of a batch, padding included.

    Attributes:
        labels: Names of the classes in their order; none where answers are sequences.
    """

    model: Model
    labels: Sequence[str] = ()

    def __init__(self, batch_tokens: int) -> None:
        self.batch_tokens = batch_tokens

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
        """
        rows = range(len(split)) if rows is None else rows
        answers: dict[int, Prediction] = {}
        with evaluating(self.model):
            for batch in self.batches(split, rows):
                answers.update(zip(batch.rows, self.answer(batch, first), strict=True))
        return [answers[row] for row in rows]

    def batches(self, split: EncodedSplit, rows: Sequence[int]) -> Iterator[Batch]:
        """Yields the batches of some rows, on the model's device."""
        device = next(self.model.parameters()).device
        for chosen in evaluation_order(split.lengths, rows, tokens=self.batch_tokens):
            yield split.batch(chosen).to(device)


class SequencePredictor(Predictor):
    """Generates output sequences.

    Args:
        model: An encoder-decoder.
        tokenizer: Of the target side.
        decoding: How outputs are searched.
        constraint: What they must respect.
        batch_tokens: Source and target positions of a batch.
        n_best: Outputs for each sentence.
        session: Cached states, or recomputing everything for comparison.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        tokenizer: Tokenizer,
        decoding: Decoding,
        constraint: Constraint,
        batch_tokens: int,
        n_best: int = 1,
        session: type[ModelSession] = CachedSession,
    ) -> None:
        super().__init__(batch_tokens)
        self.model: EncoderDecoder = model
        self.tokenizer = tokenizer
        self.decoding = decoding
        self.constraint = constraint
        self.n_best = n_best
        self.session = session

    def search(self, batch: Batch, first: int) -> list[list[Hypothesis]]:
        """Returns each sentence's hypotheses, the best first."""
        keys = [first + row for row in batch.rows]
        session = self.session(self.model, batch.source, self.constraint.start(batch.source), keys)
        return self.decoding.search(session)

    def answer(self, batch: Batch, first: int) -> list[Prediction]:
        """Returns each sentence's best hypotheses.

        Raises:
            ConfigurationError: The search finds fewer than are asked for.
            NotFiniteError: The model's scores are not finite.
        """
        found = [hypotheses[: self.n_best] for hypotheses in self.search(batch, first)]
        if (fewest := min(map(len, found))) < self.n_best:
            raise ConfigurationError(
                f"{self.n_best} outputs are asked for, but {type(self.decoding).__name__} found {fewest}; "
                f"ask for fewer, or decode with decoding.name=beam and decoding.size={self.n_best} or more"
            )
        best = [hypothesis for hypotheses in found for hypothesis in hypotheses]
        texts = self.tokenizer.decode([hypothesis.tokens for hypothesis in best])
        answers = [Prediction(text, hypothesis.score) for text, hypothesis in zip(texts, best, strict=True)]
        return [Prediction.of(answers[at : at + self.n_best]) for at in range(0, len(answers), self.n_best)]


class LabelPredictor(Predictor):
    """Chooses a label.

    Args:
        model: An encoder with a classifier.
        labels: Names of the classes.
        batch_tokens: Positions of a batch.
        n_best: Labels for each text.
    """

    def __init__(self, model: EncoderOnly, labels: Sequence[str], batch_tokens: int, n_best: int = 1) -> None:
        super().__init__(batch_tokens)
        self.model = model
        self.labels = labels
        self.n_best = n_best

    def answer(self, batch: Batch, first: int) -> list[Prediction]:
        """Returns each text's most probable labels.

        Raises:
            ConfigurationError: There are not so many labels.
            NotFiniteError: The model's scores are not finite.
        """
        if self.n_best > len(self.labels):
            raise ConfigurationError(
                f"{self.n_best} outputs are asked for, but there are {len(self.labels)} labels; ask for fewer"
            )
        log_probabilities = self.model.logits(batch).log_softmax(dim=-1)
        if (broken := log_probabilities.isnan().any(dim=-1)).any():
            raise not_finite(first + min(row for row, bad in zip(batch.rows, broken, strict=True) if bad))
        scores, classes = log_probabilities.topk(self.n_best, dim=-1)
        return [
            Prediction.of([Prediction(self.labels[label], score) for label, score in zip(*row, strict=True)])
            for row in zip(classes.tolist(), scores.tolist(), strict=True)
        ]
