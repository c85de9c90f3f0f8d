"""Task types: what the examples of a task mean."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from plugformer.interfaces.batch import Encoded
from plugformer.interfaces.level import Level
from plugformer.interfaces.prediction import Prediction, Value
from plugformer.interfaces.tokenizer import Tokenizer

if TYPE_CHECKING:
    import numpy as np
    from datasets import Dataset

    from plugformer.interfaces.batch import Batch
    from plugformer.interfaces.model import Model


Holds = Literal["text", "texts", "words", "label", "labels", "tags", "number"]


@dataclass(frozen=True)
class Column:
    """A column of a task's examples.

    Attributes:
        name: Its name in the data.
        holds: A string (text), a list of strings (texts, words, labels, tags), a `datasets.ClassLabel`
            (label), or a float (number).
        role: Whether it is given or to be predicted; when predicting, examples have no outputs.
        tokenizer: The side whose tokenizer learns from it; None for what is not tokenized.
        along: The column of words to each of which this one has a tag.
        optional: Whether examples may lack it.
    """

    name: str
    holds: Holds
    role: Literal["input", "output"]
    tokenizer: Literal["source", "target"] | None = None
    along: str | None = None
    optional: bool = False


class Tokenizers(NamedTuple):
    """Tokenizers of input and output; one object where they share a vocabulary, or nothing is generated."""

    source: Tokenizer
    target: Tokenizer


Example = Mapping[str, Any]
"""The values of an example by column: a label by its name, lists as lists."""

Examples = Mapping[str, Sequence[Any]]
"""The values of several examples by column; outputs are missing when predicting."""


class TaskType(ABC):
    """What examples mean: their columns, the numbers that a model reads of them, and its answers.

    A component is constructed as `SomeTaskType(**options)`.

    Attributes:
        level: What it predicts from.
        packed: Whether outputs are joined end to end, END behind each, and cut into pieces as long as the
            model reads at once; every token is predicted once, the first of a piece from the one before it.
        answer_type: What its answers are: an `Answer`, or a name for answers that are none of these.
        learned_type: What `learn` returns, as pydantic knows it: a run's JSON is checked against it.
        learned: What `learn` has returned, set by the core.
        marks: What questions are written with beside their words, such as a mask: never reported as unknown.
        check_examples: A few examples for `plugformer check`, where values are to fit one another; such as
            the columns hold if there are none.
    """

    level: ClassVar[Level]
    packed: ClassVar[bool] = False
    answer_type: ClassVar[str]
    learned_type: ClassVar[Any] = None
    learned: Any = None
    marks: ClassVar[tuple[str, ...]] = ()
    check_examples: "ClassVar[Sequence[Example]]" = ()

    @property
    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """The columns of its examples, inputs before outputs."""

    def learn(self, train: "Dataset") -> Any:  # noqa: ARG002 (a default)
        """Returns what must be known of the training examples, such as the labels in order: kept as JSON."""
        return None

    @property
    def outputs(self) -> int | None:
        """Number of outputs of the head; None for the size of the target vocabulary."""
        return None

    @abstractmethod
    def encode(self, examples: Examples, tokenizers: Tokenizers) -> Mapping[str, Sequence[Any]]:
        """Returns examples as numbers: lists by `input`, `output` and `targets`, as `Encoded` has them.

        Training, evaluation and prediction all come here, so that they cannot differ. The same examples give
        the same numbers. When predicting, the columns of outputs are missing. At level `token` there is a
        target for each token even then: any number where the token is to be labelled, else IGNORED.

        Raises:
            ExampleError: An example cannot be encoded, such as one with an unknown label.
        """

    def draw(self, encoded: Encoded, generators: "Sequence[np.random.Generator]") -> Encoded:  # noqa: ARG002
        """Returns examples after what is random about them, such as masks; by default as they are.

        Nothing is drawn for questions.

        Args:
            encoded: Some examples.
            generators: One for each; they differ from epoch to epoch in training, never in evaluation.
        """
        return encoded

    def answer(self, model: "Model", batch: "Batch", tokenizers: Tokenizers, n_best: int) -> list[Prediction]:
        """Returns the answer to each example of a batch, the model in evaluation mode.

        Answers that quote what they are asked, such as spans of a text, find it in `batch.inputs`.

        A score that is no number says that the model's are none.

        Not called at level `next-token`, where the core decodes text.

        Raises:
            ConfigurationError: There are not so many answers.
        """
        raise NotImplementedError

    def references(self, example: Example) -> list[Value]:
        """Returns the right answers to an example; by default what its first output column has."""
        return [next(example[column.name] for column in self.columns if column.role == "output")]

    def question(self, text: str) -> Example:
        """Returns what a text asks, as the values of the input columns; by default the text is the only one.

        Raises:
            ConfigurationError: It does not have as many parts as there are input columns.
        """
        return {next(column.name for column in self.columns if column.role == "input"): text}
