"""Data whose splits are files."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import Field

from plugformer.errors import DataError
from plugformer.interfaces import Column
from plugformer_blocks import check_file
from plugformer_plugins.data.rows import RowData

SplitName = Annotated[str, Field(pattern=r"^(train|validation|test\w*)$")]
"""`train`, `validation`, or a name that starts with `test`."""

Keys: TypeAlias = tuple[str | int, ...]
"""The keys that lead to a value among the options."""

T = TypeVar("T")

OneOrMore: TypeAlias = T | Annotated[list[T], Field(min_length=1)]
"""One thing, or a list of several."""


class FileData(RowData):
    """Rows of files; for each split one file, or several."""

    _files: Mapping[str, Any]

    def sources(self) -> Mapping[str, Sequence[Any]]:
        """Returns the files of each split."""
        return {split: one_or_more(files) for split, files in self._files.items()}

    def problems(self, columns: Sequence[Column]) -> Iterator[tuple[Keys, str]]:
        """Yields missing and empty files, with the keys that lead to them."""
        for keys, file in self.placed():
            try:
                check_file(file)
            except DataError as error:
                yield keys, str(error)

    def placed(self) -> Iterator[tuple[Keys, Any]]:
        """Yields every file with the keys that lead to it."""
        for split, files in self._files.items():
            for number, file in enumerate(one_or_more(files)):
                yield ("files", split, number) if isinstance(files, list) else ("files", split), file


def one_or_more(value: T | list[T]) -> list[T]:
    """Returns a list of what may be written as one thing or as several."""
    return value if isinstance(value, list) else [value]
