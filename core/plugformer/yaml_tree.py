"""Documents whose every value knows where it was written, and problems with their places."""

import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from plugformer.errors import ConfigurationError, PlugformerError

Key: TypeAlias = str | int
"""A key of a mapping, or the number of an item of a list."""

KeyPath: TypeAlias = tuple[Key, ...]
"""The keys that lead to a value."""

Finding: TypeAlias = tuple[KeyPath, str]
"""A place in a task, and what is wrong there; a hint may follow on lines of its own."""

MOST = 20
"""The number of problems in a report; a file may have thousands."""

_LONGEST = 1000
"""The number of characters in a line of a report; a value may have millions."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value was written.

    Attributes:
        document: A file, as the user named it, or a quoted command-line argument.
        line: Line in the file, counted from 1, like `column`; None for an argument.
        folder: The folder that relative paths in the document start from.
    """

    document: str
    line: int | None = None
    column: int | None = None
    folder: Path = field(default=Path(), compare=False)

    @classmethod
    def of_argument(cls, option: str, argument: str) -> "Origin":
        """Returns the origin of an argument of a command."""
        return cls(f"{option} {shlex.quote(argument[:200])}", folder=Path.cwd())

    def __str__(self) -> str:
        return self.document if self.line is None else f"{self.document}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake.

    Attributes:
        origin: Where it was written; None for a default that nobody wrote.
        hint: What was expected, or what to do, on lines of its own; may be empty.
        at_key: Whether the last key is wrong, rather than the value under it.
    """

    origin: Origin | None
    path: KeyPath
    message: str
    hint: str = ""
    at_key: bool = False

    def __str__(self) -> str:
        place = "" if self.origin is None else f"{self.origin}  "
        path = f"{dotted(self.path)}: " if self.path else ""
        lines = [*f"{place}{path}{self.message}".split("\n"), *self.hint.splitlines()]
        return "\n  ".join(line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…" for line in lines)

    @property
    def error(self) -> ConfigurationError:
        """The error to raise for this mistake alone."""
        return ConfigurationError(str(self))


@contextmanager
def placed(origin: Origin | None, path: KeyPath) -> Iterator[None]:
    """Adds the place of a value to the errors of the block that uses it."""
    try:
        yield
    except PlugformerError as error:
        raise Problem(origin, path, str(error)).error from error


def dotted(path: Iterable[Key]) -> str:
    """Returns the path as the user writes it after --set: `model.encoder.per_layer.0`."""
    return ".".join(str(key) for key in path)


def report(problems: Iterable[Problem]) -> str:
    """Returns problems as text without repetitions, in the order of the documents; at most MOST of them."""

    def place(problem: Problem) -> tuple[str, int, int]:
        origin = problem.origin or Origin("")
        return origin.document, origin.line or 0, origin.column or 0

    unique = sorted(dict.fromkeys(problems), key=place)
    more = [f"... and {len(unique) - MOST:,} more"] * (len(unique) > MOST)
    return "\n".join([*map(str, unique[:MOST]), *more])


_ABSENT = object()

Places: TypeAlias = dict[KeyPath, tuple[Origin, Origin]]
"""Where values and their keys were written, by the paths of the values."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A document as ordinary mappings, lists and scalars, with the places where they were written.

    Attributes:
        value: The content; a tree is never changed.
        places: Origins of values and of their keys; a default has none.
    """

    value: Any
    places: Places

    @classmethod
    def of(cls, value: Any, origin: Origin) -> "Tree":
        """Returns a tree with a single origin."""
        return cls(value, {(): (origin, origin)})

    def get(self, path: KeyPath, default: Any = None) -> Any:
        """Returns the value at a path, or the default if there is none."""
        value = self.value
        for key in path:
            value = _item(value, key)
        return default if value is _ABSENT else value

    def origin(self, path: KeyPath, *, key: bool = False) -> Origin | None:
        """Returns the origin of the value at a path, or of the innermost one around it that was written.

        Keys that are missing on the way are skipped. With `key`, the origin is that of the last key.
        """
        value, here, place = self.value, list[Key](), self.places.get(())
        for part in path:
            if (item := _item(value, part)) is not _ABSENT:
                value, here = item, [*here, part]
                place = self.places.get((*here,), place)
        return place and place[key and len(here) == len(path)]

    def folder(self, path: KeyPath) -> Path:
        """Returns the folder that the relative path at a path starts from."""
        return (self.origin(path) or Origin("")).folder.absolute()

    def at(self, path: KeyPath) -> "Tree":
        """Returns the part of the tree at a path."""
        depth = len(path)
        places = {key[depth:]: place for key, place in self.places.items() if key[:depth] == path}
        return Tree(self.get(path), places)

    def under(self, path: KeyPath) -> "Tree":
        """Returns a tree that has this one at a path; the mappings around it have its origin."""
        return EMPTY.with_value(path, self)

    def with_value(self, path: KeyPath, tree: "Tree") -> "Tree":
        """Returns this tree with another one at a path; mappings around it that are new have its origin."""
        new = {path[:depth]: tree.places[()] for depth in range(len(path))}
        kept = {key: place for key, place in self.places.items() if key[: len(path)] != path}
        inner = {(*path, *key): place for key, place in tree.places.items()}
        return Tree(_replaced(self.value, path, tree.value), new | kept | inner)


EMPTY = Tree({}, {})


def _item(value: Any, key: Key) -> Any:
    if isinstance(value, dict):
        return value.get(key, _ABSENT)
    inside = isinstance(value, list | tuple) and isinstance(key, int) and 0 <= key < len(value)
    return value[key] if inside else _ABSENT


def _replaced(value: Any, path: KeyPath, new: Any) -> Any:
    if not path:
        return new
    outer = value if isinstance(value, dict) else {}
    return {**outer, path[0]: _replaced(outer.get(path[0]), path[1:], new)}
