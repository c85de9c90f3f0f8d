"""Task types: what the examples of a task mean."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from torch import Tensor

from plugformer.errors import ConfigurationError, RegistryError
from plugformer.interfaces.batch import Batch, Encoded
from plugformer.interfaces.data import Column
from plugformer.interfaces.model import Model
from plugformer.interfaces.position import View
from plugformer.interfaces.prediction import Input, Level, Prediction
from plugformer.interfaces.tokenizer import Tokenizer

if TYPE_CHECKING:
    import numpy as np
    from datasets import Dataset


class Tokenizers(NamedTuple):
    """The tokenizers of inputs and of generated text; with a shared vocabulary they are the same object."""

    source: Tokenizer
    target: Tokenizer


Example = Mapping[str, Any]
"""The values of one example by column; a label is a name, a number a float."""

Examples = Mapping[str, Sequence[Any]]
"""Lists of values by column. Questions have no columns of outputs."""


class TaskType(ABC):
    """The columns of a task's examples, their encoding for a model, and the model's answers.

    A component is constructed as `SomeTaskType(**options)`.

    Attributes:
        level: What it predicts from. It decides what `encode` returns and which heads fit.
        packed: Whether outputs are concatenated, each followed by END, and cut into pieces of the model's
            length. Each token is predicted once; the last token of a piece also begins the next piece.
        output_type: An `OutputType` or another name. It decides which heads and metrics fit.
        state_type: The type of the value that `learn` returns and a run keeps as JSON, such as `list[str]`.
        state: The value that `learn` has returned. The core sets it before anything is encoded.
        mask_tokens: Tokens that users write for masked words in questions; never reported as unknown.
        baselines: Names of the baselines that models are compared with unless a task names others.
        token_dropout: What `model.token_dropout` is unless a task says it.
        check_examples: A few examples for `plugformer check`, if values of columns must fit one another.
    """

    level: ClassVar[Level]
    packed: ClassVar[bool] = False
    output_type: ClassVar[str]
    state_type: ClassVar[Any] = None
    state: Any = None
    mask_tokens: ClassVar[tuple[str, ...]] = ()
    baselines: ClassVar[tuple[str, ...]] = ()
    token_dropout: float = 0.0
    check_examples: "ClassVar[Sequence[Example]]" = ()

    @property
    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """The columns of its examples, inputs before outputs."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        """What a model reads: by default `input`, if there is an input column."""
        return (Input(),) * any(column.role == "input" for column in self.columns)

    def learn(self, train: "Dataset") -> Any:  # noqa: ARG002 (a default)
        """Returns the state, such as `train.features["label"].names`, the names of the labels' numbers."""
        return None

    def view(self, view: View) -> View:
        """Returns what tokens of a stack with this view see in models of the task, by default the same."""
        return view

    def held_out_groups(self, examples: "Dataset") -> "Dataset":
        """Returns what a split `by: group` holds out; a group may become one example."""
        return examples

    @property
    def outputs(self) -> int | None:
        """Number of outputs, a head's `model.outputs`; None for the size of the target vocabulary."""
        return None

    @abstractmethod
    def encode(self, examples: Examples, tokenizers: Tokenizers) -> Mapping[str, Sequence[Any]]:
        """Returns lists over examples by the names of `inputs`, `output`, `targets` and `weights`.

        An input is a list of token ids, without BEGIN, END and padding, or a list of lists if it is `many`.

        | level | `output` | `targets` |
        | --- | --- | --- |
        | `next-token` | token ids; for questions a prompt | |
        | `token` | | an integer or a float for each token of the first input, or None |
        | `sequence` | | one or several numbers; none for questions |
        | `vector` | | as at `sequence`, or none if the head needs none |

        None means that a token has no target. It is deterministic. Questions have no columns of outputs. At
        level `token` they still have targets, any number for each token that is to be labeled. Targets are
        finite. The head receives integers as integers, of 32 bits in lists, and floats as float32. Where
        examples have different numbers of targets, the shorter lists of a batch end with ABSENT, or NaN among
        floats, which the head leaves out.

        `weights`, if there are any, multiply the losses of targets: a number of at least 0 for each example;
        or a list, at level `token` for each token of the first input, at level `next-token` for each token of
        the output and for END. They do not matter in questions.

        Raises:
            ExampleError: An example cannot be encoded, such as one with an unknown label.
        """

    def draw(self, encoded: Encoded, generators: "Sequence[np.random.Generator]") -> Encoded:  # noqa: ARG002
        """Returns examples with random changes, such as masks; by default without. Not called for questions.

        It may change the `weights`, too, or add some. Each example has a generator. In training they differ
        between epochs, in evaluation never.
        """
        return encoded

    def answer(self, model: Model, batch: Batch, tokenizers: Tokenizers, n_best: int) -> list[Prediction]:
        """Returns the answer to each question of a batch; not called at level `next-token`.

        `model.best(batch)` returns the most probable outputs and their log-probabilities, and
        `model.targets(batch)[1]` the mask of the tokens that have a prediction. `batch.asked` holds the
        inputs, for answers that quote them. With `n_best` answers, the others are the first one's
        `alternatives`.

        Raises:
            ConfigurationError: There are fewer answers.
        """
        raise NotImplementedError

    def answer_with_probabilities(
        self, model: Model, batch: Batch, tokenizers: Tokenizers, n_best: int
    ) -> list[Prediction]:
        """Returns the same as `answer`, with the `probabilities` of all classes, where there are classes."""
        raise NotImplementedError

    def spans(self, example: Example, output: Any) -> list[Mapping[str, Any]]:
        """Returns the labeled parts of a question's text: `start` and `end` (characters), `label`, `text`."""
        raise NotImplementedError

    def rank(
        self, questions: Tensor, vectors: Tensor, examples: Sequence[Example], n_best: int
    ) -> list[Prediction]:
        """Returns the answers to questions, found among all examples; at level `vector` in place of `answer`.

        Both are vectors: of the first inputs, (questions, size), and of all inputs, (examples, inputs, size).
        """
        raise NotImplementedError

    def references(self, example: Example) -> list[Any]:
        """Returns the right answers to an example, by default the value of its first output column.

        Raises:
            RegistryError: There is no output column, and this method is not defined.
        """
        return [example[_of_role(self, "output", "references")[0].name]]

    def example_from_text(self, text: str) -> Example:
        """Returns the text of each column, which the kind of the column reads.

        By default of all input columns, or of those that are not optional, with tabs between.

        Raises:
            ConfigurationError: The text has another number of parts than there are input columns.
            RegistryError: There is no input column, and this method is not defined.
        """
        every = _of_role(self, "input", "example_from_text")
        needed = [column for column in every if not column.optional] or every[:1]
        parts = text.split("\t") if len(every) > 1 else [text]
        names = [column.name for column in (needed if len(parts) == len(needed) else every)]
        if len(parts) != len(names):
            given = f"{text[:40]!r} has {len(parts)} of {len(names)} texts"
            raise ConfigurationError(f"{given}; give {', '.join(names)} with tabs between")
        return dict(zip(names, parts, strict=True))


def _of_role(task_type: TaskType, role: str, method: str) -> list[Column]:
    """Returns the columns of a role, which the default of a method reads."""
    if found := [column for column in task_type.columns if column.role == role]:
        return found
    name = type(task_type).__name__
    raise RegistryError(f"{name} has no {role} column for the default `{method}` to read: define `{method}`")
