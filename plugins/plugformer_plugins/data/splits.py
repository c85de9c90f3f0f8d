"""Which files make which split."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, TypeAlias, TypeVar

from pydantic import Field

from plugformer.data import check_file
from plugformer.errors import DataError

SplitName = Annotated[str, Field(pattern=r"^(train|validation|test\w*)$")]
"""`train`, `validation`, or a name that starts with `test`."""

Keys: TypeAlias = tuple[str | int, ...]
"""The keys that lead to a value among the options."""

T = TypeVar("T")

OneOrMore: TypeAlias = T | Annotated[list[T], Field(min_length=1)]
"""One thing, or a list of several."""


def one_or_more(value: T | list[T]) -> list[T]:
    """Returns a list of what may be written as one thing or as several."""
    return value if isinstance(value, list) else [value]


def placed(files: Mapping[str, T | list[T]]) -> Iterator[tuple[Keys, T]]:
    """Yields every file, or pair of files, of some splits, with the keys that lead to it."""
    for split, value in files.items():
        if isinstance(value, list):
            yield from ((("files", split, number), each) for number, each in enumerate(value))
        else:
            yield ("files", split), value


def missing(files: Iterable[tuple[Keys, Path]]) -> Iterator[tuple[Keys, str]]:
    """Yields the files that are not there, by the keys that lead to them, and what is wrong."""
    for keys, file in files:
        try:
            check_file(file)
        except DataError as error:
            yield keys, str(error)
