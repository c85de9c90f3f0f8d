"""Task types: what the examples of a task mean."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, get_args

from plugformer.errors import ConfigurationError, nearest
from plugformer.interfaces.batch import Encoded
from plugformer.interfaces.prediction import Level, Prediction, Value
from plugformer.interfaces.tokenizer import Tokenizer

if TYPE_CHECKING:
    import numpy as np
    from datasets import Dataset

    from plugformer.interfaces.batch import Batch
    from plugformer.interfaces.model import Model


Holds = Literal["text", "texts", "words", "label", "labels", "tags", "number"]
"""What a column has for each example; `Column` says what each of them means."""

Role = Literal["input", "output"]
Tokenized = Literal["source", "target"]


@dataclass(frozen=True)
class Column:
    """A column of a task's examples.

    Attributes:
        name: Its name in the data.
        holds: What each example has there: `text`, a string; `texts`, a list of strings; `words`, a list of
            strings that make up a text; `label`, the name of one class; `labels`, a list of names, empty or
            not; `tags`, a list of names, one for each of the words in the column `along`; `number`, a float.
        role: `input` if it is given, `output` if it is to be predicted: questions have no outputs.
        tokenizer: `source` or `target`, the side whose tokenizer learns from it; None for what is not
            tokenized. One column at least is tokenized as source.
        along: Of tags, the name of the column with their words; None of all others.
        optional: Whether examples may lack it.

    Raises:
        ConfigurationError: `holds`, `role` or `tokenizer` has a value that is none of these.
    """

    name: str
    holds: Holds
    role: Role
    tokenizer: Tokenized | None = None
    along: str | None = None
    optional: bool = False

    def __post_init__(self) -> None:
        """Refuses what no type checker has seen."""
        known = {"holds": get_args(Holds), "role": get_args(Role), "tokenizer": (None, *get_args(Tokenized))}
        for field, values in known.items():
            if (value := getattr(self, field)) not in values:
                names = [each for each in values if each]
                raise ConfigurationError(
                    f"column {self.name!r}: {field} is {value!r}{nearest(str(value), names)}; "
                    f"expected {', '.join(names[:-1])} or {names[-1]}"
                )


class Tokenizers(NamedTuple):
    """What makes numbers of text; one object twice where both sides share a vocabulary.

    Attributes:
        source: Of what is read: `source.encode(texts)`, or `source.encode_words(words)` for the tokens of
            each word.
        target: Of what is generated; that of the source where nothing is.
    """

    source: Tokenizer
    target: Tokenizer


Example = Mapping[str, Any]
"""The values of one example by column: a label by its name, a number as a float, lists as lists."""

Examples = Mapping[str, Sequence[Any]]
"""The values of several examples by column, each a list over examples; questions have no outputs."""


class TaskType(ABC):
    """What examples mean: their columns, the numbers that a model reads of them, and its answers.

    A component is constructed as `SomeTaskType(**options)`.

    Attributes:
        level: What it predicts from, which decides what `encode` returns and which heads fit.
        packed: Whether outputs are joined end to end, END behind each, and cut into pieces as long as the
            model reads at once; every token is predicted once, the first of a piece from the one before it.
        output_type: What its answers are, which decides which heads and metrics fit: an `OutputType`, or
            another name for answers that are none of these.
        state_type: The type of what `learn` returns, such as `list[str]`; None where nothing is learned.
            What a run has kept as JSON is checked against it.
        state: What `learn` has returned, set by the core before anything is encoded.
        mask_tokens: Tokens that users write for masked words in questions; never reported as unknown.
        check_examples: A few examples for `plugformer check`, where values are to fit one another; such as
            the columns hold if there are none.
    """

    level: ClassVar[Level]
    packed: ClassVar[bool] = False
    output_type: ClassVar[str]
    state_type: ClassVar[Any] = None
    state: Any = None
    mask_tokens: ClassVar[tuple[str, ...]] = ()
    check_examples: "ClassVar[Sequence[Example]]" = ()

    @property
    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """The columns of its examples, inputs before outputs."""

    def learn(self, train: "Dataset") -> Any:  # noqa: ARG002 (a default)
        """Returns state learned from the training examples, such as the ordered labels; it is kept as JSON.

        Args:
            train: The training examples. `train["tags"]` is a column, one value for each example, as in
                `sorted(set(chain.from_iterable(train["tags"])))`; of a column of labels the values are
                numbers, and `train.features["label"].names` their names.
        """
        return None

    @property
    def outputs(self) -> int | None:
        """Number of outputs, a head's `model.outputs`; None for the size of the target vocabulary."""
        return None

    @abstractmethod
    def encode(self, examples: Examples, tokenizers: Tokenizers) -> Mapping[str, Sequence[Any]]:
        """Returns examples as numbers: lists by `input`, `output` and `targets`, as `Encoded` has them.

        | level | `input` | `output` | `targets` |
        | --- | --- | --- | --- |
        | `next-token` | tokens to read, if it has inputs | tokens to follow; of questions a prompt | |
        | `token` | tokens to read | | an integer or a float for each token, or None |
        | `sequence` | tokens to read | | a number, or as many as outputs; not of questions |

        There is a list for each example; BEGIN, END and padding come later. Training, evaluation and
        prediction all come here, so that they cannot differ. The same examples give the same numbers.
        Questions lack the columns of outputs; at level `token` they have targets all the same, since these
        say which tokens are to be labeled: any number there, None elsewhere.

        Targets are finite. Integers arrive at the head as integers, floats as float32. Among integers,
        IGNORED means the same as None; among floats, -100.0 is a number like others.

        Args:
            examples: Columns with a value for each example.
            tokenizers: Trained already.

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

        What is most probable is the head's to say: `model.best(batch)`. `model.targets(batch)[1]` says of
        which hidden states, by token those that have a target. Answers that quote what they are
        asked, such as spans of a text, find it in `batch.inputs`. A score that is no number says that the
        model's are none.

        Not called at level `next-token`, where the core decodes text.

        Args:
            model: The trained model.
            batch: Questions.
            tokenizers: Of the task.
            n_best: Answers that are asked for: one, or more with `alternatives`.

        Raises:
            ConfigurationError: There are not so many answers.
        """
        raise NotImplementedError

    def references(self, example: Example) -> list[Value]:
        """Returns the right answers to an example; by default what its first output column has."""
        return [next(example[column.name] for column in self.columns if column.role == "output")]

    def question(self, text: str) -> Example:
        """Returns a text as an example: the values of the input columns.

        By default the text is the only one; where that column holds words, those between white space.

        Raises:
            ConfigurationError: It does not have as many parts as there are input columns.
        """
        column = next(column for column in self.columns if column.role == "input")
        return {column.name: text.split() if column.holds == "words" else text}
