"""From a model and encoded examples to outputs that people read."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from plugformer.data.batches import Batch
from plugformer.data.encoding import EncodedSplit
from plugformer.data.order import evaluation_order
from plugformer.decoding import CachedSession, Constraint, ModelSession
from plugformer.interfaces import Decoding, Hypothesis, Tokenizer
from plugformer.model.models import EncoderDecoder, EncoderOnly, Model, evaluating


@dataclass(frozen=True)
class Prediction:
    """An output and its score: the natural logarithm of its probability under the model."""

    output: str
    score: float


class Predictor(ABC):
    """Answers examples with a model; what kind of answer is a subclass's matter.

    Args:
        batch_tokens: Source and target positions of a batch, padding included.
    """

    model: Model

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
        session: Cached states, or recomputing everything for comparison.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        tokenizer: Tokenizer,
        decoding: Decoding,
        constraint: Constraint,
        batch_tokens: int,
        session: type[ModelSession] = CachedSession,
    ) -> None:
        super().__init__(batch_tokens)
        self.model: EncoderDecoder = model
        self.tokenizer = tokenizer
        self.decoding = decoding
        self.constraint = constraint
        self.session = session

    def search(self, batch: Batch, first: int) -> list[list[Hypothesis]]:
        """Returns each sentence's hypotheses, the best first."""
        keys = [first + row for row in batch.rows]
        session = self.session(self.model, batch.source, self.constraint.start(batch.source), keys)
        return self.decoding.search(session)

    def answer(self, batch: Batch, first: int) -> list[Prediction]:
        """Returns each sentence's best hypothesis."""
        best = [hypotheses[0] for hypotheses in self.search(batch, first)]
        texts = self.tokenizer.decode([hypothesis.tokens for hypothesis in best])
        return [Prediction(text, hypothesis.score) for text, hypothesis in zip(texts, best, strict=True)]


class LabelPredictor(Predictor):
    """Chooses a label.

    Args:
        model: An encoder with a classifier.
        labels: Names of the classes.
        batch_tokens: Positions of a batch.
    """

    def __init__(self, model: EncoderOnly, labels: Sequence[str], batch_tokens: int) -> None:
        super().__init__(batch_tokens)
        self.model = model
        self.labels = labels

    def answer(self, batch: Batch, first: int) -> list[Prediction]:  # noqa: ARG002 (nothing is random)
        """Returns each text's most probable label."""
        scores, classes = self.model.logits(batch).log_softmax(dim=-1).max(dim=-1)
        return [
            Prediction(self.labels[label], score)
            for label, score in zip(classes.tolist(), scores.tolist(), strict=True)
        ]
