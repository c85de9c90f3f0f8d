"""YAML documents as trees in which every node knows where it was written, and problems with their places.

Scalars follow the core schema of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema): `no` is text and
`1e-4` is a number. Tags and merge keys are refused. PyYAML's own `compose` is not used: with libyaml, deep
nesting overflows its stack and ends the process.
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


_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml, ten times as fast, is optional

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

_MOST_NODES = 100_000
"""Nodes of a document, those behind aliases included: a few nested aliases can stand for billions."""


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """A single value."""

    value: str | int | float | bool | None
    origin: Origin


@dataclass(frozen=True, slots=True)
class SequenceNode:
    """A list."""

    items: tuple["Node", ...]
    origin: Origin


@dataclass(frozen=True, slots=True)
class MappingNode:
    """Keys and their nodes; `keys` has the origins of the keys."""

    items: dict[Key, "Node"]
    keys: dict[Key, Origin]
    origin: Origin


Node: TypeAlias = ScalarNode | SequenceNode | MappingNode
"""A value with its origin."""


def plain(node: Node) -> Any:
    """Returns the node as ordinary lists, dictionaries and scalars."""
    if isinstance(node, ScalarNode):
        return node.value
    if isinstance(node, SequenceNode):
        return [plain(item) for item in node.items]
    return {key: plain(item) for key, item in node.items.items()}


def resolve_scalar(text: str) -> str | int | float | bool | None:
    """Returns the value of an unquoted scalar in YAML 1.2."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if len(text) > _LONGEST_NUMBER:
        return text
    number = next((convert for pattern, convert in _NUMBERS if pattern.fullmatch(text)), None)
    return text if number is None else number(text)


def read_file(file: Path, name: str) -> MappingNode:
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


def read_mapping(content: bytes, name: str, folder: Path) -> MappingNode:
    """Returns the mapping of a document in UTF-8, or raises ConfigurationError."""
    start = Origin(name, 1, 1, folder)
    try:
        node = read_text(content.decode("utf-8-sig"), start)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(f"{name}:{line}  is not UTF-8; save the file as UTF-8") from error
    if node is None:
        raise Problem(start, (), "is empty; expected a mapping of keys to values").error
    if not isinstance(node, MappingNode):
        kind = "a list" if isinstance(node, SequenceNode) else repr(node.value)
        raise Problem(node.origin, (), f"expected a mapping of keys to values, found {kind}").error
    return node


def read_text(text: str, start: Origin) -> Node | None:
    """Returns the tree of a document, None if it is empty, or raises ConfigurationError.

    Every node gets its own line and column, or `start` itself if that has none.
    """
    composer = _Composer(yaml.parse(text, Loader=_Loader), start)
    try:
        return composer.document()
    except (UnicodeError, yaml.YAMLError) as error:
        mark = getattr(error, "problem_mark", None)
        message = f"is not valid YAML: {getattr(error, 'problem', None) or error}"
        lines = text.splitlines()
        line = lines[mark.line] if mark is not None and mark.line < len(lines) else ""
        if "\t" in line[: len(line) - len(line.lstrip())]:
            message = "a tab in the indentation; YAML is indented with spaces"
        composer.fail(mark, message)


class _Composer:
    """Turns the parser's events into a tree."""

    def __init__(self, events: Iterator[Any], start: Origin) -> None:
        self._events = events
        self._start = start
        self._anchors: dict[str, tuple[Node, int, int]] = {}
        self._nodes = self._level = self._deepest = 0

    def document(self) -> Node | None:
        """Returns the tree of the only document, or None if the text is empty."""
        next(self._events)  # the start of the stream
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return None
        tree = self._node(next(self._events))
        next(self._events)  # the end of the document
        after = next(self._events)
        if not isinstance(after, yaml.StreamEndEvent):
            self.fail(after.start_mark, "a second document starts here; expected only one")
        return tree

    def fail(self, mark: Any, message: str) -> NoReturn:
        """Raises ConfigurationError with the place of a mark."""
        raise Problem(self._origin(mark), (), message).error

    def _origin(self, mark: Any) -> Origin:
        if mark is None or self._start.line is None:
            return self._start
        return Origin(self._start.document, mark.line + 1, mark.column + 1, self._start.folder)

    def _node(self, event: Any) -> Node:
        before, deepest = self._nodes, self._deepest
        self._level = self._deepest = self._level + 1
        self._refuse_excess(event)
        if not isinstance(event, yaml.AliasEvent):
            node, size = self._new_node(event), 1 + self._nodes - before
            if event.anchor is not None:
                self._anchors[event.anchor] = node, size, self._deepest - self._level
        elif event.anchor in self._anchors:
            node, size, levels = self._anchors[event.anchor]
            self._deepest += levels
        else:
            self.fail(event.start_mark, f"alias *{event.anchor} refers to nothing written before it")
        self._nodes = before + size
        self._refuse_excess(event)
        self._level, self._deepest = self._level - 1, max(deepest, self._deepest)
        return node

    def _refuse_excess(self, event: Any) -> None:
        if self._deepest > _MOST_LEVELS:
            self.fail(event.start_mark, f"nested too deeply: more than {_MOST_LEVELS} levels")
        if self._nodes > _MOST_NODES:
            self.fail(event.start_mark, f"more than {_MOST_NODES:,} values, counting those behind aliases")

    def _new_node(self, event: Any) -> Node:
        origin = self._origin(event.start_mark)
        allowed = ("!", "tag:yaml.org,2002:str") if isinstance(event, yaml.ScalarEvent) else ()
        if event.tag is not None and event.tag not in allowed:
            self.fail(event.start_mark, f"the tag {event.tag!r} is not allowed")
        if isinstance(event, yaml.ScalarEvent):
            is_plain = event.implicit[0] and not event.tag
            return ScalarNode(resolve_scalar(event.value) if is_plain else event.value, origin)
        if isinstance(event, yaml.SequenceStartEvent):
            return SequenceNode(tuple(map(self._node, self._until(yaml.SequenceEndEvent))), origin)
        mapping = MappingNode({}, {}, origin)
        for key_event in self._until(yaml.MappingEndEvent):
            key = plain(self._node(key_event))
            if isinstance(key, bool) or not isinstance(key, str | int):
                self.fail(key_event.start_mark, f"a key must be text or a whole number, found {key!r}")
            if key in mapping.items:
                self.fail(key_event.start_mark, f"key {key!r} is written twice; first at {mapping.keys[key]}")
            mapping.keys[key] = self._origin(key_event.start_mark)
            mapping.items[key] = self._node(next(self._events))
        return mapping

    def _until(self, end: type) -> Iterator[Any]:
        """Yields events up to one that ends a collection."""
        while not isinstance(event := next(self._events), end):
            yield event
