"""Data that a generator makes."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plugformer.interfaces import Column, Data

if TYPE_CHECKING:
    from datasets import DatasetDict


class GeneratedData(Data):
    """Examples that are all in memory; a subclass makes them."""

    offered: Sequence[str] = ("source", "target")

    @abstractmethod
    def splits(self) -> Mapping[str, Sequence[tuple[Any, ...]]]:
        """Returns the rows of each split, with a value for each column."""

    def load(self, columns: Sequence[Column]) -> "DatasetDict":
        """Returns the splits.

        Raises:
            ConfigurationError: The task has other columns, or the options do not fit together.
            DataError: A file cannot be read.
        """
        from datasets import Dataset, DatasetDict

        self.check_columns(columns)
        return DatasetDict(
            {
                split: Dataset.from_dict(dict(zip(self.offered, zip(*rows, strict=True), strict=True)))
                for split, rows in self.splits().items()
            }
        )
