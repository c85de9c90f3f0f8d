"""YAML documents as trees whose every node knows where it was written.

Scalars follow the core schema of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema): `no` is text and
`1e-4` is a number. Tags, merge keys and anything that could execute are refused. Task files and manifests are
read here; what their keys mean is said elsewhere.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import yaml

from plugformer.errors import ConfigurationError
from plugformer.problems import Key, Origin, Problem, report

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml, about ten times as fast, is optional

_NULL = {"", "~", "null", "Null", "NULL"}
_BOOLEAN = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_DECIMAL = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL_FLOAT = re.compile(r"([-+]?)\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value."""

    value: str | int | float | bool | None
    origin: Origin


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    items: tuple["Node", ...]
    origin: Origin


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys and their nodes; `keys` says where each key was written."""

    items: dict[Key, "Node"]
    keys: dict[Key, Origin]
    origin: Origin


Node: TypeAlias = Scalar | Sequence | Mapping
"""A value with its place."""


def plain(node: Node) -> Any:
    """Returns the node as ordinary lists, dictionaries and scalars."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    return {key: plain(item) for key, item in node.items.items()}


def resolve_scalar(text: str) -> str | int | float | bool | None:
    """Returns the value of an unquoted scalar in YAML 1.2."""
    if text in _NULL:
        return None
    if text in _BOOLEAN:
        return _BOOLEAN[text]
    if _DECIMAL.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, base=0)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _SPECIAL_FLOAT.fullmatch(text):
        return float(text.replace(".", "", 1))
    return text


def read_file(file: Path, name: str) -> Mapping:
    """Reads a file that holds one mapping; `name` is what messages call it.

    Raises:
        ConfigurationError: The file cannot be read, or is not one well-formed YAML mapping.
    """
    if os.path.isdir(file):  # noqa: PTH112 (a path that is too long is none)
        raise ConfigurationError(f"{name}: is a folder, expected a file{file_within(file, name)}")
    try:
        content = file.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(f"{name}: cannot be read: {reason}") from error
    return read_mapping(content, name, file.absolute().parent)


def file_within(folder: Path, name: str) -> str:
    """Returns a line with the task or study in a folder, for messages; an empty text if it has none.

    Args:
        folder: What may be a folder.
        name: What the user called it.
    """
    files = (each for each in ("task.yaml", "study.yaml") if os.path.isfile(folder / each))  # noqa: PTH113 (as above)
    return next((f"\nwrite {Path(name, each)}" for each in files), "")


def read_mapping(content: bytes, name: str, folder: Path) -> Mapping:
    """Reads a document that holds one mapping.

    Raises:
        ConfigurationError: It is not UTF-8, empty, not YAML, not a mapping, or has a key twice.
    """
    start = Origin(name, 1, 1, folder)
    node = read_text(_decode(content, start), start)
    if node is None:
        raise Problem(start, (), "is empty; expected a mapping of keys to values").error
    if not isinstance(node, Mapping):
        found = "a list" if isinstance(node, Sequence) else repr(node.value)[:60]
        raise Problem(node.origin, (), f"expected a mapping of keys to values, found {found}").error
    return node


def read_text(text: str, start: Origin) -> Node | None:
    """Reads a document; every node gets its own line and column, or `start` itself if that has none.

    Returns:
        The tree, or None if the document is empty.

    Raises:
        ConfigurationError: The text is not one well-formed YAML document.
    """
    builder = _Builder(start)
    try:
        tree = builder.document(yaml.parse(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        builder.fail(error.problem_mark, _format_error(error, text))
    except yaml.reader.ReaderError as error:
        builder.fail(None, f"character {error.character!r} is not allowed in YAML")
    except (UnicodeError, yaml.YAMLError) as error:
        builder.fail(None, f"is not readable as YAML: {error}")
    if builder.problems:
        raise ConfigurationError(report(builder.problems))
    return tree


class _Builder:
    """Turns the parser's events into a tree, and collects what is wrong with it."""

    def __init__(self, start: Origin) -> None:
        self.problems: list[Problem] = []
        self._start = start
        self._anchors: dict[str, Node] = {}

    def document(self, events: Iterator[Any]) -> Node | None:
        next(events)  # the start of the stream
        if isinstance(next(events), yaml.StreamEndEvent):
            return None
        tree = self._node(next(events), events)
        next(events)  # the end of the document
        after = next(events)
        if not isinstance(after, yaml.StreamEndEvent):
            self.fail(after.start_mark, "a second document starts here; expected only one")
        return tree

    def fail(self, mark: Any, message: str) -> NoReturn:
        """Gives up reading, with everything found so far."""
        self._problem(mark, message)
        raise ConfigurationError(report(self.problems))

    def _problem(self, mark: Any, message: str) -> None:
        self.problems.append(Problem(self._origin(mark), (), message))

    def _origin(self, mark: Any) -> Origin:
        if mark is None or self._start.line is None:
            return self._start
        return Origin(self._start.document, mark.line + 1, mark.column + 1, self._start.folder)

    def _node(self, event: Any, events: Iterator[Any]) -> Node:
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                self.fail(event.start_mark, f"alias *{event.anchor} refers to nothing written before it")
            return self._anchors[event.anchor]
        node = self._fresh(event, events)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _fresh(self, event: Any, events: Iterator[Any]) -> Node:
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        if event.tag is not None:
            self._problem(event.start_mark, f"the tag {event.tag!r} is not allowed")
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(event, events)
        return self._mapping(event, events)

    def _scalar(self, event: Any) -> Scalar:
        quoted = not event.implicit[0]
        if event.tag not in (None, "!", "tag:yaml.org,2002:str"):
            self._problem(event.start_mark, f"the tag {event.tag!r} is not allowed")
        value = event.value if quoted or event.tag else resolve_scalar(event.value)
        return Scalar(value, self._origin(event.start_mark))

    def _sequence(self, event: Any, events: Iterator[Any]) -> Sequence:
        items: list[Node] = []
        while not isinstance(following := next(events), yaml.SequenceEndEvent):
            items.append(self._node(following, events))
        return Sequence(tuple(items), self._origin(event.start_mark))

    def _mapping(self, event: Any, events: Iterator[Any]) -> Mapping:
        mapping = Mapping({}, {}, self._origin(event.start_mark))
        while not isinstance(following := next(events), yaml.MappingEndEvent):
            key = self._key(self._node(following, events), following.start_mark)
            value = self._node(next(events), events)
            if key in mapping.items:
                first = mapping.keys[key]
                self._problem(following.start_mark, f"key {key!r} is written twice; first at {first}")
            mapping.items[key] = value
            mapping.keys[key] = self._origin(following.start_mark)
        return mapping

    def _key(self, node: Node, mark: Any) -> Key:
        value = plain(node) if isinstance(node, Scalar) else None
        if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        shown = repr(value)[:60] if isinstance(node, Scalar) else "a list or mapping"
        self._problem(mark, f"a key must be text or a whole number, not {shown}")
        return ""


def _decode(content: bytes, start: Origin) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - (before.rfind(b"\n") + 1) + 1
        place = Origin(start.document, line, column, start.folder)
        message = f"byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise Problem(place, (), message).error from error


def _format_error(error: yaml.MarkedYAMLError, text: str) -> str:
    """Returns a message for a YAML syntax error; tabs, the most common cause, are named."""
    mark = error.problem_mark
    lines = text.splitlines()
    line = lines[mark.line] if mark is not None and mark.line < len(lines) else ""
    indent = line[: len(line) - len(line.lstrip())]
    if "\t" in indent:
        return "a tab in the indentation; YAML is indented with spaces"
    context = f" {error.context}" if error.context else ""
    return f"is not valid YAML: {error.problem}{context}"
