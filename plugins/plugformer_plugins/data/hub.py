"""Data sets of the Hugging Face Hub, and folders laid out like them."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from plugformer.errors import ConfigurationError, DataError, nearest
from plugformer.interfaces import Column, Data
from plugformer_plugins.data.bad_rows import BadRows, Policy
from plugformer_plugins.data.examples import (
    Example,
    build,
    label_column,
    needed,
    require_aligned,
)
from plugformer_plugins.data.hub_streams import no_column, streamed, value
from plugformer_plugins.data.labels import warn_of_numbers
from plugformer_plugins.data.splits import Keys, SplitName

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict, IterableDatasetDict


_BINARY = ("npy", "npz", "pth")
"""Members of archives that `datasets` would hand to NumPy and torch.load; there is no text in them."""


class Hub(Data):
    """A data set by name, fetched once and then read from the cache of `datasets`; or a local folder.

    Args:
        dataset: Its name, such as `ag_news`, or a folder with files in formats that `datasets` knows.
        configuration: Which of its variants, where it has several.
        revision: Commit, branch or tag: pin it, so that the same task means the same data.
        splits: For each split the data set's name for it; its `train`, `validation` and `test` if None.
        columns: Which of its columns is `source` and which `target`, or `text` and `label`; a field of a
            nested column by a dot, as in `translation.de`. Those of the same names if None.
        bad_rows: Whether a row with an empty text or a label that is no class stops the reading, or is
            skipped, counted and reported.
    """

    def __init__(
        self,
        *,
        dataset: str,
        configuration: str | None = None,
        revision: str | None = None,
        splits: dict[SplitName, str] | None = None,
        columns: dict[str, str] | None = None,
        bad_rows: Policy = "refuse",
    ) -> None:
        self._dataset = dataset
        self._configuration = configuration
        self._revision = revision
        self._splits = splits
        self._columns = columns or {}
        self._bad_rows = bad_rows
        self._notices: list[str] = []

    def load(self, columns: Sequence[Column]) -> "DatasetDict":
        """Returns the splits.

        Raises:
            ConfigurationError: A column or split is not there.
            DataError: The data set cannot be fetched or read, or an example is empty.
        """
        found = self._found
        chosen, columns = self._chosen(found), needed(columns)
        splits = {split: self._read(found[name], name, columns) for split, name in chosen.items()}
        bad_rows = BadRows(self._bad_rows)
        label = label_column(columns)
        features = next(iter(found.values())).features  # which may name the classes
        names = None if label is None else getattr(features.get(self._name(label)), "names", None)
        examples = build(splits, columns, bad_rows, names)
        self._notices = bad_rows.notices()
        if label is not None and "train" in examples:
            self._notices += warn_of_numbers(examples, self._name(label))
        return examples

    def problems(self, columns: Sequence[Column]) -> Iterator[tuple[Keys, str]]:
        """Yields keys of `columns` that are none of the task's; nothing is fetched."""
        names = [column.name for column in needed(columns)]
        for name in self._columns:
            if name not in names:
                yield ("columns", name), f"unknown key {name!r}{nearest(name, names)}; the task has {names}"

    def stream(self, columns: Sequence[Column]) -> "IterableDatasetDict":
        """Returns the splits unread; the data set's files are the shards. Nothing is fetched before.

        Raises:
            ConfigurationError: A column or split is not there, or labels are no classes.
            DataError: The data set cannot be found.
        """
        from datasets import IterableDatasetDict, load_dataset

        with self._reachable():
            found = load_dataset(self._dataset, self._configuration, revision=self._revision, streaming=True)
        columns = needed(columns)
        names = [self._name(column) for column in columns]
        return IterableDatasetDict(
            {
                split: streamed(found[name], names, columns, f"{self._dataset}, {name}", self._bad_rows)
                for split, name in self._chosen(found).items()
            }
        )

    def version(self) -> str:
        """Returns the data set's configuration and hash, as `datasets` names them."""
        from datasets import load_dataset_builder

        with self._reachable():
            builder = load_dataset_builder(self._dataset, self._configuration, revision=self._revision)
        return f"{builder.config.name} {builder.hash}"

    def notices(self) -> list[str]:
        """Returns the number of bad rows that were skipped, and the first of them."""
        return self._notices

    @cached_property
    def _found(self) -> "DatasetDict":
        """The data set as it was fetched."""
        from datasets import load_dataset

        with self._reachable():
            found = load_dataset(self._dataset, self._configuration, revision=self._revision)
        return found.flatten()

    @contextmanager
    def _reachable(self) -> Iterator[None]:
        """Inside, any error means that the data set cannot be had."""
        from datasets.packaged_modules.webdataset.webdataset import WebDataset

        for suffix in _BINARY:
            WebDataset.DECODERS.pop(suffix, None)
        try:
            yield
        except Exception as error:  # the library has dozens, from the network to the file system
            raise DataError(
                f"data 'hub': cannot load {self._dataset!r}: {error}; check its name and "
                "the network, or give a local folder"
            ) from error

    def _chosen(self, found: Collection[str]) -> dict[str, str]:
        """Returns the data set's names of the splits that are wanted."""
        chosen = self._splits or {name: name for name in ("train", "validation", "test") if name in found}
        for name in chosen.values():
            if name not in found:
                raise ConfigurationError(
                    f"data 'hub': {self._dataset} has no split {name!r}{nearest(name, found)}, only "
                    f"{sorted(found)}; correct data.splits"
                )
        return chosen

    def _name(self, column: Column) -> str:
        """Returns the data set's name for a column of the task."""
        return self._columns.get(column.name, column.name)

    def _read(self, data: "Dataset", split: str, columns: Sequence[Column]) -> Iterator[Example | DataError]:
        names = [self._name(column) for column in columns]
        for name in names:
            if name not in data.column_names:
                raise no_column(name, data.column_names, self._dataset)
        for number, example in enumerate(data.select_columns(names), start=1):
            place = f"{self._dataset}, {split}, row {number}"
            try:
                values = tuple(
                    value(example[name], data.features[name], column, place)
                    for name, column in zip(names, columns, strict=True)
                )
                require_aligned(values, columns, place)
                yield Example(values, place)
            except DataError as fault:
                yield fault
