"""Pairs of texts, which a model reads apart: how similar they are, and which text belongs to which."""

import zlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from plugformer.errors import ConfigurationError
from plugformer.interfaces import (
    Batch,
    Column,
    Example,
    Examples,
    Input,
    Level,
    Model,
    OutputType,
    Prediction,
    TaskType,
    Tokenizers,
)
from plugformer_blocks import nearest_texts
from plugformer_plugins.task_type.regression import Regression

TwoColumns = Annotated[
    list[str], Field(min_length=2, max_length=2, description="Columns with the two texts, in their order.")
]


class Similarity(Regression):
    """Predicts a number for two texts from a vector of each.

    The model learns it less the mean of the training examples, over their deviation.
    See https://arxiv.org/abs/1908.10084.

    Args:
        inputs: Columns with the two texts.
    """

    level = Level.VECTOR

    def __init__(self, *, inputs: TwoColumns = ["first", "second"]) -> None:  # noqa: B006
        super().__init__(inputs=inputs)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The two texts; one alone has a vector, too."""
        return _pair(self._inputs)

    def encode(self, examples: Examples, tokenizers: Tokenizers) -> Mapping[str, Sequence[Any]]:
        """Returns the tokens of each text, and the targets."""
        return {**_tokens(self._inputs, examples, tokenizers), **self.targets(examples)}


class Retrieval(TaskType):
    """Finds the second text of a pair among those of all pairs, by a vector of each text.

    See https://arxiv.org/abs/1705.00652.

    Args:
        inputs: Columns with the text that is given, and with the one that is looked for.
    """

    level = Level.VECTOR
    output_type = OutputType.TEXT
    baselines = ("nearest_neighbour", "ibm1")

    def __init__(self, *, inputs: TwoColumns = ["first", "second"]) -> None:  # noqa: B006
        self._inputs = inputs

    @property
    def columns(self) -> tuple[Column, ...]:
        """The text that is given, and the one that is looked for."""
        first, second = self._inputs
        return (
            Column(first, "text", "input", tokenizer="source"),
            Column(second, "text", "output", tokenizer="source"),
        )

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The two texts; one alone has a vector, too."""
        return _pair(self._inputs)

    @property
    def outputs(self) -> int:
        """One, the similarity of the texts of a pair."""
        return 1

    def encode(self, examples: Examples, tokenizers: Tokenizers) -> Mapping[str, Sequence[Any]]:
        """Returns the tokens of each text, and for a pair a number for each text, the same where texts are.

        Different texts have the same number with a probability of 2**-31.
        """
        encoded: dict[str, Any] = _tokens(self._inputs, examples, tokenizers)
        if len(encoded) == 2:
            encoded["targets"] = [[*map(_number, pair)] for pair in zip(*encoded.values(), strict=True)]
        return encoded

    def rank(
        self,
        questions: Float[Tensor, "questions size"],
        vectors: Float[Tensor, "examples 2 size"],
        examples: Sequence[Example],
        n_best: int,
    ) -> list[Prediction]:
        """Returns for each question the nearest of all different second texts."""
        rows = {example[self._inputs[1]]: row for row, example in enumerate(examples)}
        return nearest_texts(questions, vectors[list(rows.values()), 1], list(rows), n_best)

    def answer(self, model: Model, batch: Batch, tokenizers: Tokenizers, n_best: int) -> list[Prediction]:
        """Refuses: a text is found among others."""
        raise ConfigurationError(
            "this model finds texts among others: give these, one on each line of a file, with --among FILE, "
            "or ask for vectors with --vectors; in Python see TrainedModel.vectors"
        )


def _pair(names: Sequence[str]) -> tuple[Input, ...]:
    return tuple(Input(name, optional=True) for name in names)


def _tokens(names: Sequence[str], examples: Examples, tokenizers: Tokenizers) -> dict[str, list[list[int]]]:
    """Returns the tokens of the texts that there are."""
    return {name: tokenizers.source.encode(examples[name]) for name in names if name in examples}


def _number(tokens: Sequence[int]) -> int:
    return zlib.crc32(np.array(tokens, dtype=np.int64).tobytes()) >> 1
