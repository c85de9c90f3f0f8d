"""What a model predicts from and what it answers: where task types, architectures, heads and metrics meet."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

Value = str | float | Sequence[str] | Sequence[float] | Mapping[str, Any]
"""An answer: a text or the name of a class, a number, a list of these, or several of these by name."""


class Level(StrEnum):
    """What a task predicts from.

    A task type has one, architectures and heads serve some: what is combined must have it in common.
    """

    NEXT_TOKEN = "next-token"  # noqa: S105 (no password)
    """One state for each position of the output, which sees what stands before and predicts what follows.

    Translation, language modeling.
    """

    TOKEN = "token"  # noqa: S105
    """One state for each token of the input, which sees all of it: tagging, masked language modeling."""

    SEQUENCE = "sequence"
    """All states of the input together: classification, regression."""


class OutputType(StrEnum):
    """What an answer is.

    A task type gives one, heads and metrics serve some: what is combined must have it in common. Answers of
    any other kind, such as a label and a number together, have a name that their task type chooses, and that
    heads and metrics for them declare. They are what JSON can hold.
    """

    TEXT = "text"
    """A string of which there are right ones, such as a translation."""

    LABEL = "label"
    """A string, the name of one class."""

    LABELS = "labels"
    """A list of any number of names, each of which applies or does not."""

    TAGS = "tags"
    """A list of names, one for each word."""

    NUMBER = "number"
    """A float."""

    TOKENS = "tokens"
    """A string that has no one right continuation: only the probability of its tokens is measured."""


@dataclass(frozen=True)
class Prediction:
    """An output and its score: the natural logarithm of its probability under the model.

    Attributes:
        output: The answer, as `OutputType` says of the task's type.
        score: The logarithm, at most 0; None where an answer has no probability, as a number.
        alternatives: Further outputs, the best first, if more than one is asked for.
        truncated: Whether the model has read only the beginning of the text, which is too long; the core sets
            it.
        unknown: Parts of the text that the vocabulary cannot spell, so that the model has not read them; the
            core sets it.
    """

    output: Value
    score: float | None = None
    alternatives: tuple["Prediction", ...] = ()
    truncated: bool = False
    unknown: tuple[str, ...] = ()

    @property
    def probability(self) -> float | None:
        """Probability of the whole output under the model, from 0 to 1; None where it has none."""
        # Rounding may leave the logarithm of 1 a little above 0.
        return None if self.score is None else math.exp(min(self.score, 0.0))

    @property
    def text(self) -> str:
        """The output as it is printed."""
        return as_text(self.output)

    @classmethod
    def of(cls, ranked: "Sequence[Prediction]") -> "Prediction":
        """Returns the first of several, the others its alternatives."""
        return replace(ranked[0], alternatives=tuple(ranked[1:]))


def as_text(value: Value) -> str:
    """Returns an answer as it is printed: lists with spaces between, six digits of a number."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {as_text(each)}" for name, each in value.items())
    return f"{value:.6g}" if isinstance(value, float | int) else " ".join(map(as_text, value))
