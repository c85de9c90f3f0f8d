"""YAML documents whose every value knows where it was written, and problems with their places.

Scalars follow the core schema of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema): `no` is text and
`1e-4` is a number. Tags and merge keys are refused.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import yaml
from yaml.composer import Composer

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


@dataclass(frozen=True, slots=True)
class Tree:
    """A document as ordinary mappings, lists and scalars, with the places where they were written.

    Attributes:
        value: The content; a tree is never changed.
        origins: Origins of values by path; of defaults there are none.
        keys: Origins of the keys of mappings by path.
    """

    value: Any
    origins: dict[KeyPath, Origin]
    keys: dict[KeyPath, Origin]

    @classmethod
    def of(cls, value: Any, origin: Origin) -> "Tree":
        """Returns a tree with a single origin."""
        return cls(value, {(): origin}, {})

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
        here: KeyPath = ()
        value, found = self.value, self.origins.get(here)
        for number, part in enumerate(path, start=1):
            if (item := _item(value, part)) is not _ABSENT:
                value, here = item, (*here, part)
                origins = self.keys if key and number == len(path) else self.origins
                found = origins.get(here, found)
        return found

    def folder(self, path: KeyPath) -> Path:
        """Returns the folder that the relative path at a path starts from."""
        return (self.origin(path) or Origin("")).folder.absolute()

    def at(self, path: KeyPath) -> "Tree":
        """Returns the part of the tree at a path."""
        depth = len(path)
        origins, keys = (
            {place[depth:]: origin for place, origin in places.items() if place[:depth] == path}
            for places in (self.origins, self.keys)
        )
        return Tree(self.get(path), origins, keys)

    def under(self, path: KeyPath) -> "Tree":
        """Returns a tree that has this one at a path; the mappings around it have its origin."""
        return Tree({}, {}, {}).replaced(path, self)

    def replaced(self, path: KeyPath, tree: "Tree") -> "Tree":
        """Returns this tree with another one at a path; mappings around it that are new have its origin."""
        outer = {path[:depth]: tree.origins[()] for depth in range(len(path) + 1)}
        origins, keys = (
            outer
            | {place: origin for place, origin in old.items() if place[: len(path)] != path}
            | {(*path, *place): origin for place, origin in new.items()}
            for old, new in ((self.origins, tree.origins), (self.keys, tree.keys))
        )
        return Tree(_replaced(self.value, path, tree.value), origins, keys)


def _item(value: Any, key: Key) -> Any:
    if isinstance(value, dict):
        return value.get(key, _ABSENT)
    inside = isinstance(value, list) and isinstance(key, int) and 0 <= key < len(value)
    return value[key] if inside else _ABSENT


def _replaced(value: Any, path: KeyPath, new: Any) -> Any:
    if not path:
        return new
    outer = value if isinstance(value, dict) else {}
    return {**outer, path[0]: _replaced(outer.get(path[0]), path[1:], new)}


_CONSTANTS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBERS: tuple[tuple[re.Pattern[str], Callable[[str], int | float]], ...] = (
    (re.compile(r"[-+]?[0-9]+"), int),
    (re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+"), lambda text: int(text, base=0)),
    (re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"), float),
    (re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"), lambda text: float(text.replace(".", "", 1))),
)

_LONGEST_NUMBER = 300
"""Characters of a number; a longer one is text, since Python refuses to convert some of these."""

_MOST_LEVELS = 100
"""Lists and mappings within each other, those behind aliases included: Python refuses deep recursion."""

_TOO_DEEP = f"nested too deeply: more than {_MOST_LEVELS} levels"

_MOST_NODES = 100_000
"""Nodes of a document, those behind aliases included: a few nested aliases can stand for billions."""


def resolve_scalar(text: str) -> str | int | float | bool | None:
    """Returns the value of an unquoted scalar in YAML 1.2."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if len(text) > _LONGEST_NUMBER or text[0] not in "+-.0123456789":
        return text
    number = next((convert for pattern, convert in _NUMBERS if pattern.fullmatch(text)), None)
    return text if number is None else number(text)


def read_file(file: Path, name: str) -> Tree:
    """Returns the mapping of a file, which messages call `name`, or raises ConfigurationError."""
    try:
        content = file.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(f"{name}: cannot be read: {reason}{file_within(file, name)}") from error
    return read_mapping(content, name, file.absolute().parent)


def file_within(folder: Path, name: str) -> str:
    """Returns a line for messages with the task or study in a folder; an empty text if there is none."""
    names = (file for file in ("task.yaml", "study.yaml") if os.path.isfile(folder / file))  # noqa: PTH113 (which fails if the path is too long)
    return next((f"\nwrite {Path(name, file)}" for file in names), "")


def read_mapping(content: bytes, name: str, folder: Path) -> Tree:
    """Returns the mapping of a document in UTF-8, or raises ConfigurationError."""
    start = Origin(name, 1, 1, folder)
    try:
        tree = read_text(content.decode("utf-8-sig"), start)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(f"{name}:{line}  is not UTF-8; save the file as UTF-8") from error
    if tree is None:
        raise Problem(start, (), "is empty; expected a mapping of keys to values").error
    if not isinstance(tree.value, dict):
        kind = "a list" if isinstance(tree.value, list) else repr(tree.value)
        raise Problem(tree.origin(()), (), f"expected a mapping of keys to values, found {kind}").error
    return tree


def read_text(text: str, start: Origin) -> Tree | None:
    """Returns the tree of a document, None if it is empty, or raises ConfigurationError.

    Every value gets its own line and column, or `start` itself if that has none.
    """
    composer, reader = _Composer(text), _Reader(start)
    try:
        node = composer.get_single_node()
    except RecursionError:
        reader.fail(composer.peek_event().start_mark, _TOO_DEEP)
    except (UnicodeError, yaml.YAMLError) as error:
        mark = getattr(error, "problem_mark", None)
        words = [getattr(error, name, None) for name in ("context", "problem")]
        lines = text.splitlines()
        line = lines[mark.line] if mark is not None and mark.line < len(lines) else ""
        if "\t" in line[: len(line) - len(line.lstrip())]:
            reader.fail(mark, "a tab in the indentation; YAML is indented with spaces")
        reader.fail(mark, f"is not valid YAML: {', '.join(filter(None, words)) or error}")
    if node is None:
        return None
    return Tree(reader.value(node, ()), reader.origins, reader.keys)


class _Composer(Composer):
    """PyYAML's composer over the events of libyaml, which is optional and ten times as fast.

    That of libyaml itself overflows its stack with deep nesting, and ends the process.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
        self.check_event, self.peek_event = parser.check_event, parser.peek_event
        self.get_event = parser.get_event

    def descend_resolver(self, parent: Any, index: Any) -> None:
        """Does nothing: tags do not depend on paths."""

    def ascend_resolver(self) -> None:
        """Does nothing."""

    def resolve(self, kind: type, value: Any, implicit: Any) -> str:  # noqa: ARG002 (the base class calls it)
        """Returns the tag of a node that has none: PLAIN if it may be a number."""
        return _PLAIN if kind is yaml.ScalarNode and implicit[0] else _UNTAGGED


_PLAIN, _UNTAGGED, _TEXT = "plain", "untagged", "tag:yaml.org,2002:str"


class _Reader:
    """Turns nodes into values, and keeps their places."""

    def __init__(self, start: Origin) -> None:
        self._start = start
        self.origins: dict[KeyPath, Origin] = {}
        self.keys: dict[KeyPath, Origin] = {}

    def fail(self, mark: Any, message: str) -> NoReturn:
        """Raises ConfigurationError with the place of a mark."""
        raise Problem(self._origin(mark), (), message).error

    def _origin(self, mark: Any) -> Origin:
        if mark is None or self._start.line is None:
            return self._start
        return Origin(self._start.document, mark.line + 1, mark.column + 1, self._start.folder)

    def value(self, node: yaml.Node, path: KeyPath) -> Any:
        """Returns the value of a node at a path."""
        if len(path) >= _MOST_LEVELS:
            self.fail(node.start_mark, _TOO_DEEP)
        if len(self.origins) == _MOST_NODES:
            self.fail(node.start_mark, f"more than {_MOST_NODES:,} values, counting those behind aliases")
        if node.tag not in (_PLAIN, _UNTAGGED, _TEXT):
            self.fail(node.start_mark, f"the tag {node.tag!r} is not allowed")
        self.origins[path] = self._origin(node.start_mark)
        if isinstance(node, yaml.ScalarNode):
            return resolve_scalar(node.value) if node.tag == _PLAIN else node.value
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        mapping: dict[Key, Any] = {}
        for key_node, item in node.value:
            key = self._key(key_node, path)
            mapping[key] = self.value(item, (*path, key))
        return mapping

    def _key(self, node: yaml.Node, path: KeyPath) -> Key:
        """Returns a key of the mapping at a path, which the mapping does not have yet."""
        key = resolve_scalar(node.value) if node.tag == _PLAIN else _Reader(self._start).value(node, ())
        if isinstance(key, bool) or not isinstance(key, str | int):
            self.fail(node.start_mark, f"a key must be text or a whole number, found {key!r}")
        if before := self.keys.get((*path, key)):
            self.fail(node.start_mark, f"key {key!r} is written twice; first at {before}")
        self.keys[(*path, key)] = self._origin(node.start_mark)
        return key
