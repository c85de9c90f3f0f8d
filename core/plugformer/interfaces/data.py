"""Data: the sources of examples, their columns, and the kinds of values in these."""

import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from plugformer.errors import ConfigurationError

if TYPE_CHECKING:
    from datasets import DatasetDict, IterableDatasetDict


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


class Data(ABC):
    """A source of examples, in named splits.

    A component is constructed as `SomeData(**options)`. Options annotated as `pathlib.Path` are resolved from
    the folder of the task file.

    Attributes:
        rows: Examples in memory by split, from `train(data=...)`; for the component `memory`.
        dataset: The name of the data set on the Hugging Face Hub, if it comes from there.
        license: The license of the examples, such as `cc-by-4.0`, if the component knows it.
        offered: Names of the columns that it has; None if the task decides.
    """

    rows: Mapping[str, Any] = {}
    dataset: str = ""
    license: str = ""
    offered: Sequence[str] | None = None

    def check_columns(self, columns: Sequence[Column]) -> None:
        """Raises ConfigurationError if the data cannot have these columns, without reading the data."""
        needed = [column.name for column in columns if not column.optional]
        if self.offered is not None and not set(needed) <= set(self.offered):
            has, needs = " and ".join(self.offered), " and ".join(needed)
            raise ConfigurationError(f"the data has {has}, and the task needs {needs}; choose other data")

    @abstractmethod
    def load(self, columns: Sequence[Column]) -> "DatasetDict":
        """Returns the splits: `train`, `validation`, and any number of splits whose name starts with `test`.

        Examples have the columns of the task type; optional ones may be missing. A column `place` may hold
        the origin of each example, such as `file:line`.

        Raises:
            ConfigurationError: The data cannot serve these columns.
            DataError: A file is missing, empty or malformed; the message names file and line.
        """

    def problems(self, columns: Sequence[Column]) -> Iterable[tuple[tuple[str | int, ...], str]]:  # noqa: ARG002
        """Returns problems, such as missing files, by the option: `("files", "train")`, and a sentence."""
        return ()

    def stream(self, columns: Sequence[Column]) -> "IterableDatasetDict":
        """Returns the splits for streaming, always in the same order; by default those of `load`.

        A task that sets `data.streaming` calls it. Use a shard for each file: several processes share the
        shards. A malformed row has the problem as a text in the column `fault`. A label is a
        `datasets.ClassLabel`.

        Raises:
            ConfigurationError: These data cannot be streamed.
            DataError: A file is missing; or, while reading, a row is malformed.
        """
        from datasets import IterableDatasetDict

        splits = self.load(columns).items()
        return IterableDatasetDict({name: split.to_iterable_dataset() for name, split in splits})

    def version(self) -> str:
        """Returns a text that changes if `load` returns other examples with the same options.

        Files that options annotated as `pathlib.Path` name count without it. Components that read a folder, a
        database or the network must override this method, because prepared examples are cached.

        Raises:
            DataError: The source of the examples cannot be reached.
        """
        return ""

    def notices(self) -> Sequence[str]:
        """Returns notices about the last `load`, such as skipped rows; none by default."""
        return ()
