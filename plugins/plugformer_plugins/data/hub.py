"""Data sets of the Hugging Face Hub, and local folders in the same format."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial, reduce
from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator

from plugformer.errors import ConfigurationError, DataError, nearest
from plugformer.interfaces import Column
from plugformer_plugins.data.files import Keys, SplitName
from plugformer_plugins.data.labels import class_numbers
from plugformer_plugins.data.rows import (
    LoadedRow,
    Policy,
    RowData,
    label_column,
    loaded_row,
    stream_features,
    to_read,
)

if TYPE_CHECKING:
    from datasets import DatasetDict, IterableDataset, IterableDatasetDict

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

    def sources(self) -> Mapping[str, Sequence[str]]:
        """Returns the data set's name for each split.

        Raises:
            ConfigurationError: A split is not there.
            DataError: The data set cannot be fetched.
        """
        return {split: [name] for split, name in self._chosen(self._found).items()}

    def names(self, source: str) -> Sequence[str]:
        """Returns the names of the data set's columns."""
        return [*self._found[source].features]

    def read(self, source: str, columns: Sequence[Column]) -> Iterator[LoadedRow | DataError]:
        """Yields the rows of a split."""
        data = self._found[source]
        types = self._types(data.features, columns)
        place = f"{self._dataset}, {source}, row"
        for number, row in enumerate(data.select_columns(list(types)), start=1):
            yield _loaded(row, types, columns, f"{place} {number}")

    def class_names(self, label: Column) -> Sequence[str] | None:
        """Returns the names of the classes, if the data set has them."""
        (feature,) = self._types(next(iter(self._found.values())).features, [label]).values()
        return getattr(feature, "names", None)

    def stream(self, columns: Sequence[Column]) -> "IterableDatasetDict":
        """Returns the splits unread; the data set's files are the shards. Nothing is fetched before.

        Raises:
            ConfigurationError: A column or split is not there, or labels are no classes.
            DataError: The data set cannot be found.
        """
        from datasets import IterableDatasetDict, load_dataset

        found = self._fetched(load_dataset, streaming=True)
        return IterableDatasetDict(
            {split: self._streamed(found[name], name, columns) for split, name in self._chosen(found).items()}
        )

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

    def _chosen(self, found: Collection[str]) -> dict[str, str]:
        """Returns the data set's name for each split."""
        chosen = self._splits or {name: name for name in ("train", "validation", "test") if name in found}
        for name in chosen.values():
            if name not in found:
                raise ConfigurationError(
                    f"data 'hub': {self._dataset} has no split {name!r}{nearest(name, found)}, only "
                    f"{sorted(found)}; correct data.splits"
                )
        return chosen

    def _types(self, features: Mapping[str, Any], columns: Sequence[Column]) -> dict[str, Any]:
        """Returns the types of the data set's columns for those of the task, by their names."""
        names = [self._columns.get(column.name, column.name) for column in columns]
        for name in names:
            if name not in features:
                raise ConfigurationError(
                    f"data 'hub': {self._dataset} has no column {name!r}{nearest(name, features)}, only "
                    f"{sorted(features)}; name the right one in data.columns"
                )
        return {name: features[name] for name in names}

    def _streamed(self, data: "IterableDataset", split: str, columns: Sequence[Column]) -> "IterableDataset":
        """Returns a split with the columns of a task."""
        data = data if data.features else data._resolve_features()
        features = data.features.flatten()
        columns = to_read(columns, self._columns, features)
        types = self._types(features, columns)
        label = label_column(columns)
        names = None if label is None else getattr([*types.values()][columns.index(label)], "names", None)
        select = partial(
            self._selected,
            types=types,
            columns=columns,
            classes=class_numbers(names or (), None),
            place=f"{self._dataset}, {split}",
        )
        return data.map(select, remove_columns=list(data.features), features=stream_features(columns, names))

    def _selected(
        self,
        row: Mapping[str, Any],
        types: Mapping[str, Any],
        columns: Sequence[Column],
        classes: Mapping[str, int],
        place: str,
    ) -> dict[str, Any]:
        return self.record(_loaded(row, types, columns, f"{place}, row {str(row)[:80]}"), columns, classes)


def _loaded(
    row: Mapping[str, Any], types: Mapping[str, Any], columns: Sequence[Column], place: str
) -> LoadedRow | DataError:
    """Returns a row with the columns of a task; fields of nested columns have dotted names."""
    try:
        cells = [
            named(
                row[name] if name in row else reduce(lambda part, key: part[key], name.split("."), row), kind
            )
            for name, kind in types.items()
        ]
        return loaded_row(cells, columns, place)
    except DataError as error:
        return error


def named(value: Any, feature: Any) -> Any:
    """Returns a value of a column of this type: a class by its name, others as they are, also in lists."""
    if isinstance(value, list):
        return [named(part, getattr(feature, "feature", None)) for part in value]
    if hasattr(feature, "int2str") and isinstance(value, int) and value >= 0:
        return feature.int2str(value)
    return value
