"""Data: where examples come from."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plugformer.errors import ConfigurationError
from plugformer.interfaces.task_type import Column

if TYPE_CHECKING:
    from datasets import DatasetDict, IterableDatasetDict


def require_columns(data: str, offered: Sequence[str], columns: Sequence[Column]) -> None:
    """Refuses columns that data do not have.

    Args:
        data: Name of the component.
        offered: The columns that it has.
        columns: Those that a task asks for.

    Raises:
        ConfigurationError: One of them, and not an optional one, is none that is offered.
    """
    needed = [column.name for column in columns if not column.optional]
    if not set(needed) <= set(offered):
        raise ConfigurationError(
            f"data {data!r} cannot serve this type of task: it has {' and '.join(offered)}, and the task "
            f"needs {' and '.join(needed)}; choose other data, or another type"
        )


def require_one_text(data: str, columns: Sequence[Column]) -> Column:
    """Returns the column that is asked for, where data have nothing but a text.

    Args:
        data: Name of the component.
        columns: Those that a task asks for.

    Raises:
        ConfigurationError: There are others, or it holds something else.
    """
    needed = [column for column in columns if not column.optional]
    if [column.holds for column in needed] != ["text"]:
        raise ConfigurationError(
            f"data {data!r} has one text for each example, and the task needs "
            f"{' and '.join(column.name for column in needed)}; choose other data, or another type"
        )
    return needed[0]


class Data(ABC):
    """A source of examples, in named splits.

    A component is constructed as `SomeData(**options)`. Options annotated as `pathlib.Path` are resolved
    against the file that wrote them before they arrive.

    Attributes:
        rows: Examples that the caller gave in memory, by split: `train(data=...)`. Empty for components that
            read something else than `memory`.
    """

    rows: Mapping[str, Any] = {}

    def check_columns(self, columns: Sequence[Column]) -> None:  # noqa: B027 (a default)
        """Refuses columns that it does not have, as far as that shows before it reads; by default none.

        `validate` calls it. `load` and `stream` refuse the same, and what shows only when examples are read.

        Raises:
            ConfigurationError: The data cannot serve these columns.
        """

    @abstractmethod
    def load(self, columns: Sequence[Column]) -> "DatasetDict":
        """Returns the splits: `train`, `validation`, and any number whose name starts with `test`.

        Examples have the columns that the task's type declares, with what each holds; of optional ones those
        that there are. A column `place` may say where an example stands, such as `file:line`.

        Args:
            columns: Of the task's type.

        Raises:
            ConfigurationError: The data cannot serve these columns.
            DataError: A file is missing, empty or malformed; the message names file and line.
        """

    def problems(self, columns: Sequence[Column]) -> Iterable[tuple[tuple[str | int, ...], str]]:  # noqa: ARG002
        """Yields problems of the options that can be found before examples are read.

        Nothing by default. `validate` reports it with its place in the task file, and training does before it
        begins. It may ask whether files are there and read how they begin, such as the names of columns: no
        more, and nothing from the network. What loads has no problems.

        Args:
            columns: Of the task's type, that the data are to serve.

        Returns:
            For each problem the keys that lead to the option, such as `("files", "train")`, and a sentence.
        """
        return ()

    def stream(self, columns: Sequence[Column]) -> "IterableDatasetDict":
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

        splits = self.load(columns).items()
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
        """Returns notices about the last `load`, such as rows left out; none by default."""
        return ()
