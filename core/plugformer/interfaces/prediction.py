"""What a model answers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

Value = str | float | Sequence[str] | Mapping[str, Any]


class Answer(StrEnum):
    """What an answer is; task types say which they give, and metrics which they measure.

    Tokens are those of a text that has no one right continuation: only their probability is measured. Answers
    of any other kind, such as a label and a number together, have a name that their task type chooses, and
    that heads and metrics for them declare. They are what JSON can hold.
    """

    TEXT = "text"
    LABEL = "label"
    LABELS = "labels"
    TAGS = "tags"
    NUMBER = "number"
    TOKENS = "tokens"


@dataclass(frozen=True)
class Prediction:
    """An output and its score: the natural logarithm of its probability under the model.

    Attributes:
        output: A text, the name of a class, names of labels or tags, a number, or several of these by name.
        score: The logarithm; None where an answer has no probability, as a number.
        alternatives: Further outputs, the best first, if more than one is asked for.
        truncated: Whether the model has read only the beginning of the text, which is too long.
        unknown: Parts of the text that the vocabulary cannot spell, so that the model has not read them.
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
    """Returns an answer as it is printed: tags and labels with spaces between, six digits of a number."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {as_text(each)}" for name, each in value.items())
    return f"{value:.6g}" if isinstance(value, float | int) else " ".join(value)
