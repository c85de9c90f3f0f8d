"""Data sets of the Hugging Face Hub, and local folders in the same format."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property, reduce
from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator

from plugformer.errors import ConfigurationError, DataError, nearest
from plugformer.interfaces import Column
from plugformer_plugins.data.files import Keys, SplitName
from plugformer_plugins.data.rows import LoadedRow, Policy, RowData, loaded_row

if TYPE_CHECKING:
    from datasets import DatasetDict, IterableDatasetDict

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")
"""NAME or OWNER/NAME of a data set on the Hub: https://huggingface.co/docs/hub/repositories."""


def _folder_or_name(value: object) -> object:
    """Turns a text such as `./set`, `/data/set`, `~/set` or `${DATA}/set` into a path."""
    is_path = isinstance(value, str) and (value.startswith((".", "~", "$")) or Path(value).is_absolute())
    return Path(str(value)) if is_path else value


class Hub(RowData):
    """A data set by name, fetched once and then read from the cache of `datasets`; or a local folder.

    See https://huggingface.co/docs/datasets/loading.

    Args:
        dataset: Its name, such as `ag_news`, which always means the Hub; or a folder with files in formats
            that `datasets` knows, beginning with `./`, `../`, `/` or `~`.
        configuration: Which of its variants, where it has several.
        revision: Commit, branch or tag: pin it, so that the same task means the same data.
        splits: For each split the data set's name for it; its `train`, `validation` and `test` if None.
        columns: For each column of the task, such as `source`, the data set's column; a field of a nested
            column has a dot, as in `translation.de`. The columns of the same names if None.
        bad_rows: Whether a row with an empty text or an unknown label stops the reading, or is skipped,
            counted and reported.

    Raises:
        ConfigurationError: `dataset` is neither a name nor a path.
    """

    def __init__(
        self,
        *,
        dataset: Annotated[Path | str, BeforeValidator(_folder_or_name)],
        configuration: str | None = None,
        revision: str | None = None,
        splits: dict[SplitName, str] | None = None,
        columns: dict[str, str] | None = None,
        bad_rows: Policy = "refuse",
    ) -> None:
        if isinstance(dataset, str) and not _NAME.fullmatch(dataset):
            raise ConfigurationError(
                f"data 'hub': dataset: {dataset!r} is not a name on the Hub; expected NAME, OWNER/NAME, or a "
                "folder that begins with ./, ../, / or ~"
            )
        self._dataset = dataset
        self.dataset = dataset if isinstance(dataset, str) else ""
        self._configuration = configuration
        self._revision = revision
        self._splits = splits
        self._columns: Mapping[str, str] = columns or {}
        self._bad_rows = bad_rows

    def problems(self, columns: Sequence[Column]) -> Iterator[tuple[Keys, str]]:
        """Yields keys of `columns` that the task does not have; nothing is downloaded."""
        names = [column.name for column in columns]
        for name in self._columns:
            if name not in names:
                yield ("columns", name), f"unknown key {name!r}{nearest(name, names)}; the task has {names}"

    def sources(self) -> Mapping[str, Sequence[tuple[str, int]]]:
        """Returns the data set's name for each split, with the number of each shard that is not fetched yet.

        Raises:
            ConfigurationError: A split is not there.
            DataError: The data set cannot be fetched.
        """
        found = self._found
        chosen = self._splits or {name: name for name in ("train", "validation", "test") if name in found}
        for name in chosen.values():
            if name not in found:
                raise ConfigurationError(
                    f"data 'hub': {self._dataset} has no split {name!r}{nearest(name, found)}, only "
                    f"{sorted(found)}; correct data.splits"
                )
        return {
            split: [(name, shard) for shard in range(getattr(found[name], "num_shards", 1))]
            for split, name in chosen.items()
        }

    def names(self, source: tuple[str, int]) -> Sequence[str]:
        """Returns the names of the data set's columns."""
        return [*self._features(source[0])]

    def present(self, columns: Sequence[Column], sources: Sequence[tuple[str, int]]) -> list[Column]:
        """Returns the columns of a task that are read; ConfigurationError if one is not there."""
        found = super().present(columns, sources)
        self._types(sources[0][0], found)
        return found

    def read(self, source: tuple[str, int], columns: Sequence[Column]) -> Iterator[LoadedRow | DataError]:
        """Yields the rows of a split, or of one of its shards; fields of nested columns have dotted names."""
        name, shard = source
        data: Any = self._found[name]
        types = self._types(name, columns)
        shards = getattr(data, "num_shards", 0)
        data = data.shard(shards, shard) if shards else data.select_columns(list(types))
        place = f"{self._dataset}, {name}, " + f"shard {shard + 1}, " * (shards > 1) + "row"
        for number, row in enumerate(data, start=1):
            try:
                cells = [
                    named(
                        row[key] if key in row else reduce(lambda part, at: part[at], key.split("."), row),
                        kind,
                    )
                    for key, kind in types.items()
                ]
                yield loaded_row(cells, columns, f"{place} {number}")
            except DataError as error:
                yield error

    def class_names(self, label: Column) -> Sequence[str] | None:
        """Returns the names of the classes, if the data set has them."""
        (feature,) = self._types(next(iter(self._found)), [label]).values()
        return getattr(feature, "names", None)

    def stream(self, columns: Sequence[Column]) -> "IterableDatasetDict":
        """Returns the splits unread; the data set's files are the shards. Nothing is fetched before.

        Raises:
            ConfigurationError: A column or split is not there, or labels are no classes.
            DataError: The data set cannot be found.
        """
        from datasets import load_dataset

        unread = copy(self)
        unread._found = self._fetched(load_dataset, streaming=True)
        return super(Hub, unread).stream(columns)

    def version(self) -> str:
        """Returns the data set's configuration and hash, as `datasets` names them."""
        from datasets import load_dataset_builder

        builder = self._fetched(load_dataset_builder)
        return f"{builder.config.name} {builder.hash}"

    @cached_property
    def _found(self) -> "DatasetDict":
        from datasets import load_dataset

        return self._fetched(load_dataset).flatten()

    def _fetched(self, load: Callable[..., Any], **options: bool) -> Any:
        """Returns what a function of `datasets` loads, a name always from the Hub, a folder from itself."""
        from datasets import disable_progress_bars
        from datasets.packaged_modules import _PACKAGED_DATASETS_MODULES

        disable_progress_bars()
        address = str(self._dataset)
        if isinstance(self._dataset, Path):
            address = str(self._dataset.expanduser().absolute())
        elif self._dataset in _PACKAGED_DATASETS_MODULES or Path(self._dataset).exists():
            raise ConfigurationError(
                f"data 'hub': dataset: `datasets` would take {self._dataset!r} for files that are here, not "
                f"for a name on the Hub; write ./{self._dataset} to read a folder, or use data 'table'"
            )
        try:
            if isinstance(self._dataset, Path):
                self._refuse_files_outside(address)
            return load(address, self._configuration, revision=self._revision, **options)
        except ConfigurationError:
            raise
        except Exception as error:  # the library has dozens, from the network to the file system
            raise DataError(
                f"data 'hub': cannot load {str(self._dataset)!r}: {error}; check its name and "
                "the network, or give a local folder"
            ) from error

    def _refuse_files_outside(self, folder: str) -> None:
        """Raises ConfigurationError if the README.md of a folder names a file that is not in it."""
        from datasets import load_dataset_builder

        splits = load_dataset_builder(folder, self._configuration).config.data_files or {}
        for file in (file for files in splits.values() for file in files):
            if not Path(normpath(file)).is_relative_to(normpath(folder)):
                raise ConfigurationError(
                    f"data 'hub': {self._dataset}/README.md names {file}, which is not in the folder; put it "
                    "there, or read it with data 'table'"
                )

    def _features(self, name: str) -> Mapping[str, Any]:
        """Returns the types of a split's columns; fields of nested columns have dotted names."""
        data: Any = self._found[name]
        features: Mapping[str, Any] = (data.features or data._resolve_features().features).flatten()
        return features

    def _types(self, name: str, columns: Sequence[Column]) -> dict[str, Any]:
        """Returns the types of a split's columns for those of the task, by their names."""
        features = self._features(name)
        wanted = [self._columns.get(column.name, column.name) for column in columns]
        for column in wanted:
            if column not in features:
                raise ConfigurationError(
                    f"data 'hub': {self._dataset} has no column {column!r}{nearest(column, features)}, only "
                    f"{sorted(features)}; name the right one in data.columns"
                )
        return {column: features[column] for column in wanted}


def named(value: Any, feature: Any) -> Any:
    """Returns a value of a column of this type: a class by its name, others as they are, also in lists."""
    if isinstance(value, list):
        return [named(part, getattr(feature, "feature", None)) for part in value]
    if hasattr(feature, "int2str") and isinstance(value, int) and value >= 0:
        return feature.int2str(value)
    return value
