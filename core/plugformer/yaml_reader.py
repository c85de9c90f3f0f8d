"""YAML documents as trees that know where everything was written.

Scalars follow the core schema of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema): `no` is text and
`1e-4` is a number. Duplicate keys, tags and merge keys are refused.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import yaml

from plugformer.errors import ConfigurationError
from plugformer.yaml_tree import Key, KeyPath, Origin, Places, Problem, Tree

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
"""Maximum nesting of lists and mappings, aliases expanded; reading them recurses."""

_TOO_DEEP = f"nested too deeply: more than {_MOST_LEVELS} levels"

_MOST_NODES = 100_000
"""Maximum number of nodes, aliases expanded: a few nested aliases can stand for billions."""

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml, which is optional and ten times as fast as PyYAML alone."""


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
    reader, level = _Reader(start), 0
    try:
        for event in yaml.parse(text, Loader=_Loader):  # before nodes are composed, which recurses
            level += isinstance(event, yaml.CollectionStartEvent)
            level -= isinstance(event, yaml.CollectionEndEvent)
            if level > _MOST_LEVELS:
                reader.fail(event.start_mark, _TOO_DEEP)
            if tag := getattr(event, "tag", None):
                reader.fail(event.start_mark, f"the tag {tag!r} is not allowed")
        node = yaml.compose(text, Loader=_Loader)
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
    return Tree(reader.value(node, ()), reader.places)


class _Reader:
    """Turns nodes into values, and keeps their places."""

    def __init__(self, start: Origin) -> None:
        self._start = start
        self.places: Places = {}

    def fail(self, mark: Any, message: str) -> NoReturn:
        """Raises ConfigurationError with the place of a mark."""
        raise Problem(self._origin(mark), (), message).error

    def _origin(self, mark: Any) -> Origin:
        if mark is None or self._start.line is None:
            return self._start
        return Origin(self._start.document, mark.line + 1, mark.column + 1, self._start.folder)

    def value(self, node: yaml.Node, path: KeyPath, key: yaml.Node | None = None) -> Any:
        """Returns the value of a node at a path, under a key of a mapping if one is given."""
        if len(path) >= _MOST_LEVELS:
            self.fail(node.start_mark, _TOO_DEEP)
        if len(self.places) == _MOST_NODES:
            self.fail(node.start_mark, f"more than {_MOST_NODES:,} values, counting those behind aliases")
        self.places[path] = self._origin(node.start_mark), self._origin((key or node).start_mark)
        if isinstance(node, yaml.ScalarNode):
            return node.value if node.style else resolve_scalar(node.value)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        mapping: dict[Key, Any] = {}
        for key_node, item in node.value:
            name = self._key(key_node, path)
            mapping[name] = self.value(item, (*path, name), key_node)
        return mapping

    def _key(self, node: yaml.Node, path: KeyPath) -> Key:
        """Returns a key of the mapping at a path, which the mapping does not have yet."""
        key = _Reader(self._start).value(node, ())
        if isinstance(key, bool) or not isinstance(key, str | int):
            self.fail(node.start_mark, f"a key must be text or a whole number, found {key!r}")
        if (*path, key) in self.places:
            first = self.places[(*path, key)][1]
            self.fail(node.start_mark, f"key {key!r} is written twice; first at {first}")
        return key
