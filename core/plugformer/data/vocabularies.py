"""What turns examples into numbers, and numbers into answers."""

from dataclasses import dataclass
from typing import Any

from plugformer.interfaces import Answer, Sizes, TaskType, Tokenizer, Tokenizers


@dataclass(frozen=True)
class Vocabularies:
    """What is learned from the training examples before any model.

    Attributes:
        source: Tokenizer of the input.
        target: Tokenizer of the output; the same object where both sides share it, or nothing is generated.
        task_type: The task's type, with what it has learned.
    """

    source: Tokenizer
    target: Tokenizer
    task_type: TaskType

    @property
    def tokenizers(self) -> Tokenizers:
        """Those of source and target."""
        return Tokenizers(self.source, self.target)

    @property
    def learned(self) -> Any:
        """What the task's type has learned, such as the names of the classes."""
        return self.task_type.learned

    @property
    def classes(self) -> list[str] | None:
        """Names of the classes, in order; None where answers are no labels."""
        return list(self.learned) if self.task_type.answer_type is Answer.LABEL else None

    @property
    def sizes(self) -> Sizes:
        """What a model must know of them."""
        own = self.task_type.outputs
        return Sizes(source=self.source.size, outputs=self.target.size if own is None else own)
