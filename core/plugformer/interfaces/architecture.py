"""Architectures: the stacks of a model, and the batches that it reads."""

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
    """A stack of layers, with settings under `model.<name>` in a task.

    Attributes:
        name: Its name in task files.
        causal: Whether a position sees only itself and earlier positions.
        cross: Whether its layers have cross-attention to another stack.
    """

    name: Literal["encoder", "decoder"]
    causal: bool
    cross: bool = False


@dataclass(frozen=True)
class Sizes:
    """The sizes of a model that follow from the data.

    Attributes:
        source: Size of the source vocabulary.
        outputs: Number of the head's outputs: the size of the target vocabulary, or the number of classes.
    """

    source: int
    outputs: int


class Limits(NamedTuple):
    """The most tokens of an example without special tokens: in its input, its output, and both together."""

    input: int
    output: int
    together: int


class Architecture(ABC):
    """Builds a model from stacks, and batches from examples.

    A component is constructed as `SomeArchitecture(**options)`.

    Attributes:
        levels: The levels that it can predict from.
        stacks: Its stacks in the order of computation.
    """

    levels: ClassVar[frozenset[Level]]
    stacks: ClassVar[tuple[Stack, ...]]

    @abstractmethod
    def collate(
        self, encoded: Encoded, level: Level, *, side: Side = "right", length: int | None = None
    ) -> Batch:
        """Returns examples as a batch of tensors, with special tokens and padding.

        Args:
            encoded: Some examples, or questions, which have no outputs.
            level: One of `levels`.
            side: The side of the padding.
            length: Minimal length of every sequence.
        """

    @abstractmethod
    def positions(
        self, lengths: Int[ndarray, "examples 2"], level: Level
    ) -> Int[ndarray, "examples sequences"]:
        """Returns the lengths of each example's sequences in a batch, without padding.

        A token budget limits the number of rows times the sum of the longest sequences.

        Args:
            lengths: Numbers of tokens in each input and output, without special tokens; -1 if there is none.
            level: One of `levels`.
        """

    @abstractmethod
    def limits(self, max_length: int, level: Level) -> Limits:
        """Returns the limits of examples whose sequences have at most `max_length` positions."""

    @abstractmethod
    def build(self, builder: Any, sizes: Sizes, level: Level) -> "Model":
        """Returns a model; its parameters get their initial values afterwards.

        Args:
            builder: A `plugformer.model.Builder`, which makes embeddings, stacks and heads.
            sizes: The sizes of the vocabulary and the head.
            level: One of `levels`.
        """

    @staticmethod
    def unlimited() -> int:
        """Returns a limit that no sequence reaches."""
        return int(np.iinfo(np.int64).max)
