"""Which files make which split."""

from typing import Annotated, TypeAlias, TypeVar

from pydantic import Field

from plugformer.explanations import InWords

SplitName = Annotated[
    str,
    Field(pattern=r"^(train|validation|test\w*)$"),
    InWords("'train' or 'validation' or a name that starts with 'test'"),
]
"""`train`, `validation`, or a name that starts with `test`."""

T = TypeVar("T")

OneOrMore: TypeAlias = T | Annotated[list[T], Field(min_length=1)]
"""One thing, or a list of several."""


def one_or_more(value: T | list[T]) -> list[T]:
    """Returns a list of what may be written as one thing or as several."""
    return value if isinstance(value, list) else [value]
