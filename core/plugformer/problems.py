"""Problems with what a user wrote, and their places; many problems make one error."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from plugformer.errors import ConfigurationError

Key: TypeAlias = str | int
"""A key of a mapping, or the number of an item of a list."""

KeyPath: TypeAlias = tuple[Key, ...]
"""The keys that lead to a value."""

Finding: TypeAlias = tuple[KeyPath, str]
"""A place in a task, and what is wrong there; a hint may follow on lines of its own."""

MOST = 20
"""Problems that are reported in full; a file may have thousands."""

_LONGEST = 1000
"""Characters of a line of a report: a value may have millions."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value was written.

    Attributes:
        document: A file, as the user named it, or a quoted command-line argument.
        line: Line in the file, counted from 1; None for an argument. `column` is the same for columns.
        folder: The folder that relative paths in the document start from.
    """

    document: str
    line: int | None = None
    column: int | None = None
    folder: Path = field(default=Path(), compare=False)

    @classmethod
    def of_argument(cls, option: str, argument: str) -> "Origin":
        """Returns the origin of an argument: the option, and the beginning of the argument."""
        return cls(f"{option} {shlex.quote(_clipped(argument, 200))}", folder=Path.cwd())

    def __str__(self) -> str:
        return self.document if self.line is None else f"{self.document}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake.

    Attributes:
        origin: Where it was written; None for a default that nobody wrote.
        path: The keys that lead to the value.
        message: The problem, with the offending value.
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
        return "\n  ".join(_clipped(line, _LONGEST) for line in lines)

    @property
    def error(self) -> ConfigurationError:
        """The error to raise for this mistake alone."""
        return ConfigurationError(str(self))


def _clipped(line: str, length: int) -> str:
    return line if len(line) <= length else f"{line[:length].rstrip()}…"


def dotted(path: Iterable[Key]) -> str:
    """Returns the path as the user writes it after --set: `model.encoder.per_layer.0`."""
    return ".".join(str(key) for key in path)


def report(problems: Iterable[Problem]) -> str:
    """Returns problems as text, in the order of the documents, each once: the first, and how many follow."""

    def place(problem: Problem) -> tuple[str, int, int]:
        origin = problem.origin or Origin("")
        return origin.document, origin.line or 0, origin.column or 0

    unique = sorted(dict.fromkeys(problems), key=place)
    more = [f"... and {len(unique) - MOST:,} more"] * (len(unique) > MOST)
    return "\n".join([*map(str, unique[:MOST]), *more])
