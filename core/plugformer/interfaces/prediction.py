"""Levels, inputs, types of outputs and predictions, which several kinds share; and engines, which predict."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar


class Level(StrEnum):
    """What a task predicts from. A task type has one level; architectures and heads support some.

    Attributes:
        NEXT_TOKEN: Each position of the output predicts the next token: translation, language modeling.
        TOKEN: Each token of the input has a prediction: tagging, masked language modeling.
        SEQUENCE: The whole input has one prediction: classification, regression.
        VECTOR: Each row of each input has one vector, and the example's vectors are compared: similarity,
            retrieval, multiple choice. They lie along the axis that holds tokens at other levels.
    """

    NEXT_TOKEN = "next-token"  # noqa: S105 (no password)
    TOKEN = "token"  # noqa: S105
    SEQUENCE = "sequence"
    VECTOR = "vector"


@dataclass(frozen=True)
class Input:
    """One input of an example, which a model reads.

    Attributes:
        name: Its name in what `TaskType.encode` returns; not `output` and not `targets`.
        many: Whether each example has a list of rows, at least one. One input at most has, the last.
        optional: Whether another input has a vector without it, such as the first of two texts.
    """

    name: str = "input"
    many: bool = False
    optional: bool = False


class OutputType(StrEnum):
    """The type of a task's outputs, which JSON can hold. A task type has one; heads and metrics support some.

    A task type may name another type; heads and metrics for it declare the same name.

    Attributes:
        TEXT: A string with references, such as a translation.
        LABEL: A string, the name of one class.
        LABELS: A list of names of classes.
        TAGS: A list of names, one for each word.
        NUMBER: A float.
        NUMBERS: A list of floats, one for each word.
        TOKENS: A string without references: only the probabilities of its tokens are measured.
    """

    TEXT = "text"
    LABEL = "label"
    LABELS = "labels"
    TAGS = "tags"
    NUMBER = "number"
    NUMBERS = "numbers"
    TOKENS = "tokens"


@dataclass(frozen=True)
class Prediction:
    """An output and its score.

    Attributes:
        output: The output, of the task's `OutputType`: a text or the name of a class, a number, a list of
            these, or several of these by name.
        score: Natural logarithm of the output's probability, at most 0; None without a probability.
        alternatives: Further outputs, the best first, if more than one was requested.
        truncated: Whether the text was too long and the model has read only its beginning.
        unknown: Parts of the text that the vocabulary lacks.
        probabilities: Of all classes by name, or a list of these for each word, if they were requested.
    """

    output: Any
    score: float | None = None
    alternatives: tuple["Prediction", ...] = ()
    truncated: bool = False
    unknown: tuple[str, ...] = ()
    probabilities: Mapping[str, float] | Sequence[Mapping[str, float]] | None = None

    @property
    def probability(self) -> float | None:
        """Probability of the whole output, from 0 to 1; None without one."""
        # Rounding may leave the logarithm of 1 a little above 0.
        return None if self.score is None else math.exp(min(self.score, 0.0))

    @property
    def text(self) -> str:
        """The output as it is printed."""
        return as_text(self.output)

    @classmethod
    def of(cls, ranked: "Sequence[Prediction]") -> "Prediction":
        """Returns the first prediction, with the others as its alternatives."""
        return replace(ranked[0], alternatives=tuple(ranked[1:]))


def as_text(value: Any) -> str:
    """Returns an output as it is printed: lists with spaces, numbers with six digits."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {as_text(item)}" for name, item in value.items())
    return f"{value:.6g}" if isinstance(value, float | int) else " ".join(map(as_text, value))


class Engine(ABC):
    """What computes the answers of a run, in place of its model.

    A component is constructed as `SomeEngine(**options)`. An engine answers like the model, with the same
    outputs, scores and errors, or it refuses the run. One that reads exported files derives from
    `plugformer_export.kept.ExportEngine`, which compares the answers before the engine is used.

    Attributes:
        device: Where the run is loaded for it, such as `cpu`; None for where the user says.
    """

    device: ClassVar[str | None] = None

    @abstractmethod
    def answering(self, trained: Any, notify: Callable[[str], None]) -> Callable[[Any], Any]:
        """Returns what makes a predictor of the model one for which this engine computes.

        Args:
            trained: The run's `plugformer.runs.TrainedModel`.
            notify: Receives messages for people.

        Raises:
            ConfigurationError: The engine is not installed, or cannot express the run; every part or setting
                without a counterpart is named.
            DataError: It has to be compared with the run, and there are no examples.
        """
