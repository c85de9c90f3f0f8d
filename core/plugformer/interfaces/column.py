"""Columns: what the examples of a task have, and the kinds of their values."""

import random
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from plugformer.errors import ConfigurationError


class ColumnKind(ABC):
    """The values that a column can have, and how they are read. A component is constructed as `SomeKind()`.

    A value is text, a number, or a list or dictionary of values, so that JSON can hold it.

    Attributes:
        classes: Whether values are names of classes, or lists of these. An unknown name is an error.
        aligned: Whether a value is a list with an item for each item of the column `Column.along`.
        empty: Whether data may have empty values; otherwise a blank text or an empty list is a bad row.
    """

    classes: ClassVar[bool] = False
    aligned: ClassVar[bool] = False
    empty: ClassVar[bool] = False

    @property
    @abstractmethod
    def feature(self) -> Any:
        """The type of the values in `datasets`, such as `Value("float64")`; a `ClassLabel` for one class."""

    @abstractmethod
    def read(self, cell: object) -> Any:
        """Returns the value in a cell: text from a text file or a user, else JSON, such as a value itself.

        Raises:
            ValueError: There is none. The message follows "the NAME ": `is 'x', expected a number`.
        """

    @abstractmethod
    def example(self, draw: random.Random, along: Any = None) -> Any:
        """Returns a value for checks; `along` is the example's value in the column that it is along."""


@dataclass(frozen=True)
class Column:
    """A column of a task's examples.

    Attributes:
        name: Its name in the data.
        holds: The name of its kind: `text`, `words`, `label`, `number` or another component `column`.
        role: `input` if it is given, `output` if it is to be predicted: questions have no outputs.
        tokenizer: The side whose tokenizer learns from it, if any; one column at least has `source`.
        along: The name of the column with whose items its own are aligned, such as the words of tags.
        optional: Whether examples may lack it, all those of a split together. `encode` receives every
            optional input, None for examples and questions that lack it.
        kind: The `ColumnKind` that `holds` names; the core sets it.

    Raises:
        ConfigurationError: `role` or `tokenizer` has another value.
    """

    name: str
    holds: str
    role: Literal["input", "output"]
    tokenizer: Literal["source", "target"] | None = None
    along: str | None = None
    optional: bool = False
    kind: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, known in (("role", ("input", "output")), ("tokenizer", (None, "source", "target"))):
            if (value := getattr(self, name)) not in known:
                raise ConfigurationError(f"column {self.name!r}: {name} {value!r} is none of {known}")
