"""Task types that predict from one or several texts, which a model reads one after the other."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import Field

from plugformer.interfaces import END, Column, Examples, Level, TaskType, Tokenizers

TextColumns = Annotated[list[str], Field(min_length=1, description="Columns with the texts.")]


class PredictionFromTexts(TaskType):
    """Predicts something of texts as a whole.

    Args:
        inputs: Columns with the texts; of several the model reads one after the other, END between them, as
            of a premise and a hypothesis.

    Attributes:
        output: The column with what is predicted.
    """

    level = Level.SEQUENCE
    output: ClassVar[Column]

    def __init__(self, *, inputs: TextColumns = ["text"]) -> None:  # noqa: B006 (pydantic copies it)
        self._inputs = inputs

    @property
    def columns(self) -> tuple[Column, ...]:
        """The texts, and what is predicted of them."""
        texts = (Column(name, "text", "input", tokenizer="source") for name in self._inputs)
        return (*texts, self.output)

    @property
    def outputs(self) -> int:
        """Number of the names that were learned."""
        return len(self.state)

    @abstractmethod
    def target(self, row: int, value: Any) -> float | list[float]:
        """Returns the target of the example with this number in its batch and this value in its column.

        Raises:
            ExampleError: The value is none that the training examples have.
        """

    def encode(self, examples: Examples, tokenizers: Tokenizers) -> Mapping[str, Sequence[Any]]:
        """Returns the tokens of the texts, END between one and the next, and the targets.

        Raises:
            ExampleError: A value of the output is none that the training examples have.
        """
        columns = [tokenizers.source.encode(examples[name]) for name in self._inputs]
        joined = [
            [*first, *(token for text in rest for token in (END, *text))]
            for first, *rest in zip(*columns, strict=True)
        ]
        return {"input": joined, **self.targets(examples)}

    def targets(self, examples: Examples) -> dict[str, Sequence[Any]]:
        """Returns the targets by `targets`; nothing of questions.

        Raises:
            ExampleError: A value of the output is none that the training examples have.
        """
        if self.output.name not in examples:
            return {}
        return {"targets": [self.target(row, value) for row, value in enumerate(examples[self.output.name])]}
