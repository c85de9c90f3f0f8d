"""Data: where examples come from."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datasets import DatasetDict, IterableDatasetDict


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

    def problems(self, task_type: TaskType) -> Iterable[tuple[tuple[str | int, ...], str]]:  # noqa: ARG002
        """Yields what is wrong with the options as far as it shows before examples are read.

        Nothing by default. `validate` reports it with its place in the task file, and training does before it
        begins. It may ask whether files are there and read how they begin, such as the names of columns: no
        more, and nothing from the network. What loads has no problems.

        Args:
            task_type: That the data are to serve.

        Returns:
            For each problem the keys that lead to the option, such as `("files", "train")`, and a sentence.
        """
        return ()

    def stream(self, task_type: TaskType) -> "IterableDatasetDict":
        """Returns the splits unread: examples come as they are asked for, always in the same order.

        Called instead of `load` where a task says `data.streaming`. By default, what `load` has read. Data
        that are too large for that come from `IterableDataset.from_generator`, or from `load_dataset` with
        `streaming=True`: `datasets` goes on with them from its `state_dict`. Each file should be a shard:
        several processes share the shards, and going on passes over what was read of the current one.

        The columns are those of `load`. A row that is to be left out has a text in the column `fault`: what
        is wrong with it; the column `place` may say where a row stands. `label` is a `datasets.ClassLabel`.

        Raises:
            ConfigurationError: The data cannot be streamed as they are described.
            DataError: A file is missing; later, while reading, that a row is malformed.
        """
        from datasets import IterableDatasetDict

        splits = self.load(task_type).items()
        return IterableDatasetDict({name: split.to_iterable_dataset() for name, split in splits})

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
