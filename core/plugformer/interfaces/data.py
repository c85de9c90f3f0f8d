"""Data: where examples come from."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datasets import DatasetDict


class TaskType(StrEnum):
    """What a task maps to what; decides the columns of its examples."""

    SEQUENCE_TO_SEQUENCE = "sequence-to-sequence"
    CLASSIFICATION = "classification"

    @property
    def columns(self) -> tuple[str, str]:
        """The columns of an example: input, then output."""
        return ("source", "target") if self is TaskType.SEQUENCE_TO_SEQUENCE else ("text", "label")


class Data(ABC):
    """A source of examples, in named splits.

    A component is constructed as `SomeData(**options)`. Options annotated as `pathlib.Path` are resolved
    against the file that wrote them before they arrive.
    """

    @abstractmethod
    def load(self, task_type: TaskType) -> "DatasetDict":
        """Returns the splits: `train`, `validation`, and any number whose name starts with `test`.

        For sequence-to-sequence every example has the strings `source` and `target`, and optionally
        `references` (a list of strings); for classification the string `text` and the `label`, a
        `datasets.ClassLabel`.

        Raises:
            DataError: A file is missing, empty or malformed; the message names file and line.
        """

    def version(self) -> str:
        """Returns a text that changes when `load` would give other examples though the options are the same.

        Prepared examples are kept, and taken again as long as options, code and version stay the same. A file
        that an option names, annotated as `pathlib.Path`, counts by its content and need not be in the
        version. By default options and files alone decide the examples; what reads a folder, a data base or
        the network must say more.

        Raises:
            DataError: The source of the examples cannot be reached.
        """
        return ""

    def notices(self) -> Sequence[str]:
        """Returns what people should know of the last `load`, such as rows left out; nothing by default."""
        return ()
