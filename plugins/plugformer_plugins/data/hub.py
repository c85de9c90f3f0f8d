"""Data sets of the Hugging Face Hub, and local folders in the same format."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator

from plugformer.errors import ConfigurationError, DataError, nearest
from plugformer.interfaces import Column, Data
from plugformer_plugins.data.examples import (
    BadRows,
    LoadedRow,
    Policy,
    build,
    cell,
    label_column,
    needed,
    require_aligned,
)
from plugformer_plugins.data.labels import warn_of_numbers
from plugformer_plugins.data.splits import Keys, SplitName
from plugformer_plugins.data.streams import empty_values, stream_features

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict, IterableDataset, IterableDatasetDict


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")
"""NAME or OWNER/NAME of a data set on the Hub: https://huggingface.co/docs/hub/repositories."""


def _folder_or_name(value: object) -> object:
    """Turns a text such as `./set`, `/data/set`, `~/set` or `${DATA}/set` into a path."""
    is_path = isinstance(value, str) and (value.startswith((".", "~", "$")) or Path(value).is_absolute())
    return Path(str(value)) if is_path else value


class Hub(Data):
    """A data set by name, fetched once and then read from the cache of `datasets`; or a local folder.

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
        """Yields keys of `columns` that the task does not have; nothing is downloaded."""
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
            found = load_dataset(self._address, self._configuration, revision=self._revision, streaming=True)
        columns = needed(columns)
        names = [self._name(column) for column in columns]
        return IterableDatasetDict(
            {
                split: _streamed(found[name], names, columns, f"{self._dataset}, {name}", self._bad_rows)
                for split, name in self._chosen(found).items()
            }
        )

    def version(self) -> str:
        """Returns the data set's configuration and hash, as `datasets` names them."""
        from datasets import load_dataset_builder

        with self._reachable():
            builder = load_dataset_builder(self._address, self._configuration, revision=self._revision)
        return f"{builder.config.name} {builder.hash}"

    def notices(self) -> list[str]:
        """Returns the number of skipped rows and the first errors."""
        return self._notices

    @cached_property
    def _found(self) -> "DatasetDict":
        """The data set as it was fetched."""
        from datasets import load_dataset

        with self._reachable():
            found = load_dataset(self._address, self._configuration, revision=self._revision)
        return found.flatten()

    @property
    def _address(self) -> str:
        """The argument for `datasets`: a path, or a name that it can only find on the Hub.

        Raises:
            ConfigurationError: `datasets` would read files of the working directory instead.
        """
        if isinstance(self._dataset, Path):
            return str(self._dataset.expanduser().absolute())
        from datasets.packaged_modules import _PACKAGED_DATASETS_MODULES

        if self._dataset in _PACKAGED_DATASETS_MODULES:
            raise ConfigurationError(
                f"data 'hub': dataset: {self._dataset!r} is a format of files, not a data set of the Hub; "
                "read files with data 'table', or give a folder such as ./data"
            )
        if Path(self._dataset).exists():
            raise ConfigurationError(
                f"data 'hub': dataset: {self._dataset!r} is a name on the Hub, but also a path here, which "
                f"`datasets` would read; write ./{self._dataset} to read it, or use another working directory"
            )
        return self._dataset

    @contextmanager
    def _reachable(self) -> Iterator[None]:
        """Turns any error of the library into one that names the data set; it shows no progress bars."""
        from datasets import disable_progress_bars

        disable_progress_bars()
        try:
            yield
        except ConfigurationError:
            raise
        except Exception as error:  # the library has dozens, from the network to the file system
            raise DataError(
                f"data 'hub': cannot load {str(self._dataset)!r}: {error}; check its name and "
                "the network, or give a local folder"
            ) from error

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

    def _name(self, column: Column) -> str:
        """Returns the data set's name for a column of the task."""
        return self._columns.get(column.name, column.name)

    def _read(
        self, data: "Dataset", split: str, columns: Sequence[Column]
    ) -> Iterator[LoadedRow | DataError]:
        names = [self._name(column) for column in columns]
        for name in names:
            if name not in data.column_names:
                raise _no_column(name, data.column_names, str(self._dataset))
        for number, example in enumerate(data.select_columns(names), start=1):
            place = f"{self._dataset}, {split}, row {number}"
            try:
                values = tuple(
                    _converted(example[name], data.features[name], column, place)
                    for name, column in zip(names, columns, strict=True)
                )
                require_aligned(values, columns, place)
                yield LoadedRow(values, place)
            except DataError as fault:
                yield fault


def _streamed(
    data: "IterableDataset", names: list[str], columns: Sequence[Column], place: str, bad_rows: Policy
) -> "IterableDataset":
    """Returns a split with the columns of a task.

    Args:
        data: The split.
        names: What it calls them; a field of a nested column by a dot.
        columns: Of the task.
        place: Which split this is, for messages.
        bad_rows: Whether a fault stops the reading, or is passed on for the core to count.

    Raises:
        ConfigurationError: A column is not there, or labels are no classes.
    """
    data = data if data.features else data._resolve_features()
    given: Mapping[str, Any] = data.features
    for name in names:
        if name.split(".")[0] not in given:
            raise _no_column(name, given, place)
    label = label_column(columns)
    classes = None if label is None else getattr(given.get(names[columns.index(label)]), "names", None)
    if label is not None and not classes:
        raise ConfigurationError(
            f"data 'hub': {place} does not name the classes of its column {names[columns.index(label)]!r}, "
            "which are then known only when all examples are read; leave out data.streaming, or read its "
            "files with data 'table' and its option labels"
        )
    features = stream_features(columns, classes)
    types = [
        None if column is label else given.get(name)  # nested ones have none
        for name, column in zip(names, columns, strict=True)
    ]
    select = partial(
        _selected, names=names, columns=columns, types=types, place=place, strict=bad_rows == "refuse"
    )
    return data.map(select, remove_columns=list(given), features=features)


def _no_column(name: str, given: Collection[str], place: str) -> ConfigurationError:
    """Returns the error of a column that a data set, or its split, lacks."""
    return ConfigurationError(
        f"data 'hub': {place} has no column {name!r}{nearest(name, given)}, only {sorted(given)}; "
        "name the right one in data.columns"
    )


def _converted(found: Any, feature: Any, column: Column, place: str) -> Any:
    """Returns a column's value: classes by their names, numbers in text columns as text.

    Raises:
        DataError: It is something else.
    """
    if isinstance(found, list):
        inner = getattr(feature, "feature", None)
        return cell([_named(each, inner) for each in found], column, place)
    return cell(found if column.holds == "number" else _named(found, feature), column, place)


def _named(found: Any, feature: Any) -> Any:
    """Returns a class by its name, a number as text, and anything else as it is."""
    if hasattr(feature, "int2str") and found is not None and found >= 0:
        return feature.int2str(found)
    return str(found) if type(found) is int else found


def _selected(
    row: Mapping[str, Any],
    names: list[str],
    columns: Sequence[Column],
    types: list[Any],
    place: str,
    strict: bool,
) -> dict[str, Any]:
    """Returns a row with the columns of a task, or with what is wrong with it."""
    where = f"{place}, row {str(dict(row))[:80]}"
    try:
        values = [
            _class(_value(row, name), where)
            if column.holds == "label"
            else _converted(_value(row, name), feature, column, where)
            for name, column, feature in zip(names, columns, types, strict=True)
        ]
        require_aligned(values, columns, where)
        found = {column.name: each for column, each in zip(columns, values, strict=True)} | {"fault": None}
    except DataError as error:
        if strict:
            raise
        found = empty_values(columns) | {"fault": str(error)}
    return {**found, "place": place}


def _class(found: Any, where: str) -> Any:
    if found is None or found < 0:  # how data sets of the Hub say that there is none
        raise DataError(f"{where}: the label is {found!r}, expected a class; remove the row")
    return found


def _value(row: Mapping[str, Any], column: str) -> Any:
    """Returns a cell; of a nested column by its dotted name."""
    return reduce(lambda part, name: part[name], column.split("."), row) if column not in row else row[column]
