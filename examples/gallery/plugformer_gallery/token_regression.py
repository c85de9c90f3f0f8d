"""A number for every word of a text, such as how long it is read."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from plugformer.errors import ConfigurationError
from plugformer.interfaces import (
    UNKNOWN,
    Batch,
    Column,
    Examples,
    Head,
    HeadContext,
    HeadInput,
    Level,
    Model,
    OutputType,
    Prediction,
    TaskType,
    Tokenizers,
)


class TokenRegression(TaskType):
    """Predicts a number for each word from its first token.

    So Hollenstein et al. 2021 predict how long people look at words:
    https://aclanthology.org/2021.naacl-main.10.
    """

    level = Level.TOKEN
    output_type = OutputType.NUMBERS
    outputs = 1
    columns = (
        Column("words", "words", "input", tokenizer="source"),
        Column("numbers", "numbers", "output", along="words"),
    )

    def encode(self, examples: Examples, tokenizers: Tokenizers) -> Mapping[str, Sequence[Any]]:
        """Returns the tokens of the words, and the number of each word at its first one."""
        cut = [tokenizers.source.encode_words(words) for words in examples["words"]]
        words = [[tokens or [UNKNOWN] for tokens in text] for text in cut]
        numbers = examples.get("numbers", [[0.0] * len(text) for text in words])
        targets: list[list[float | None]] = [[] for _ in words]
        for row, pairs in enumerate(map(zip, words, numbers)):
            for tokens, number in pairs:
                targets[row] += [number, *[None] * (len(tokens) - 1)]
        return {"input": [list(chain.from_iterable(text)) for text in words], "targets": targets}

    def answer(self, model: Model, batch: Batch, tokenizers: Tokenizers, n_best: int) -> list[Prediction]:  # noqa: ARG002
        """Returns the numbers of each text."""
        if n_best > 1:
            raise ConfigurationError("numbers have no alternatives")
        rows = zip(model.logits(batch)[..., 0], model.targets(batch)[1], strict=True)
        return [Prediction(numbers[real].tolist()) for numbers, real in rows]


class WordRegressor(Head):
    """A linear map of each token's hidden state, and the squared error.

    See https://aclanthology.org/2021.naacl-main.10.
    """

    levels = frozenset({Level.TOKEN})
    output_types = frozenset({OutputType.NUMBERS})
    probabilities = False

    def __init__(self, model: HeadContext) -> None:
        super().__init__()
        self.output = nn.Linear(model.width, 1)

    def logits(
        self,
        hidden: Float[Tensor, "batch length width"],
        context: HeadInput,  # noqa: ARG002 (all are scored)
    ) -> Float[Tensor, "batch length 1"]:
        """Returns a number for every token."""
        logits: Tensor = self.output(hidden)
        return logits

    def losses(
        self, logits: Float[Tensor, "targets 1"], targets: Float[Tensor, " targets"]
    ) -> Float[Tensor, " targets"]:
        """Returns the squared error of each number."""
        return (logits[:, 0] - targets).square()
