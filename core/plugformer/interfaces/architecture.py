"""Architectures: how a model is made of stacks, and how it reads encoded examples."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from plugformer.interfaces.batch import Batch, Encoded, Side
from plugformer.interfaces.prediction import Level

if TYPE_CHECKING:
    from plugformer.interfaces.model import Model


@dataclass(frozen=True)
class Stack:
    """A stack of layers, whose settings stand in a task's `model.<name>`.

    Attributes:
        name: Its name in task files.
        causal: Whether a position sees only itself and those before it.
        cross: Whether its layers also attend to another stack's output.
    """

    name: Literal["encoder", "decoder"]
    causal: bool
    cross: bool = False


@dataclass(frozen=True)
class Sizes:
    """What a model must know of the data.

    Attributes:
        source: Size of the source vocabulary.
        outputs: Number of the head's outputs: the size of the target vocabulary, or the number of labels.
    """

    source: int
    outputs: int


class Limits(NamedTuple):
    """How many tokens examples may have, special tokens not counted.

    Attributes:
        input: Of an input.
        output: Of an output.
        together: Of both, where an example has both.
    """

    input: int
    output: int
    together: int


class Architecture(ABC):
    """How a model is made of stacks, and how it reads examples.

    A component is constructed as `SomeArchitecture(**options)`.

    Attributes:
        levels: What its hidden states can stand for.
        stacks: Its stacks, in the order in which they compute.
    """

    levels: ClassVar[frozenset[Level]]
    stacks: ClassVar[tuple[Stack, ...]]

    @abstractmethod
    def collate(
        self, encoded: Encoded, level: Level, *, side: Side = "right", length: int | None = None
    ) -> Batch:
        """Returns examples as tensors: special tokens in their places, shorter ones padded.

        Args:
            encoded: Some examples, or questions, which have no outputs.
            level: What the task predicts from, one of `levels`.
            side: Where shorter sequences are padded.
            length: Least length of every sequence.
        """

    @abstractmethod
    def positions(
        self, lengths: Int[ndarray, "examples 2"], level: Level
    ) -> Int[ndarray, "examples sequences"]:
        """Returns the lengths of each example's sequences in a batch, padding not counted.

        A batch under a token budget has at most so many rows that rows times the sum of its longest sequences
        stay within.

        Args:
            lengths: Tokens of each example's input and output, special ones not counted; -1 without one.
            level: As of `collate`.
        """

    @abstractmethod
    def limits(self, max_length: int, level: Level) -> Limits:
        """Returns the most tokens of texts whose sequences have at most `max_length` positions."""

    @abstractmethod
    def build(self, builder: Any, sizes: Sizes, level: Level) -> "Model":
        """Returns a model; its parameters get their initial values afterwards.

        Args:
            builder: A `plugformer.model.Builder`, which makes embeddings, stacks and heads as the task says.
            sizes: Of the vocabularies.
            level: What the task predicts from, one of `levels`.
        """

    @staticmethod
    def unlimited() -> int:
        """Returns more tokens than any sequence has."""
        return int(np.iinfo(np.int64).max)
