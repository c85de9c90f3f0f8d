"""The manifest: what a distribution offers, written in its `registry.yaml`.

Read into plain dataclasses, so that `list` and `--help` need neither torch nor pydantic, and so that nothing
that a manifest names is imported.
"""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TypeVar

from plugformer.documents import Mapping, Node, Scalar, Sequence, read_mapping
from plugformer.errors import ConfigurationError, nearest
from plugformer.kinds import Kind
from plugformer.problems import Key, Problem, report

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class ComponentEntry:
    """A component: its class as `module:Class`, one sentence about it, and where it comes from.

    Its author may name contract checks that it is known to fail, each with the reason.
    """

    kind: Kind
    name: str
    target: str
    summary: str = ""
    source: str = ""
    expected_failures: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """A task: its file as `package:path/in/it.yaml`."""

    name: str
    target: str
    summary: str = ""


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command: its function as `module:function`, imported when the command is called."""

    name: str
    target: str
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a manifest says.

    Attributes:
        requires: Versions of Plugformer that it works with, as a version specifier; empty for any.
        components: Components of all kinds.
        tasks: Tasks.
        hooks: Modules with hook implementations.
        commands: Commands.
        problems: Everything that is wrong with it; nothing in it may be used unless this is empty.
    """

    requires: str = ""
    components: tuple[ComponentEntry, ...] = ()
    tasks: tuple[TaskEntry, ...] = ()
    hooks: tuple[str, ...] = ()
    commands: tuple[CommandEntry, ...] = ()
    problems: tuple[str, ...] = ()


def parse(content: bytes, origin: str) -> Manifest:
    """Reads a manifest and collects all its problems.

    Args:
        content: The file's bytes.
        origin: What messages call the file.

    Returns:
        The manifest, with the entries that are sound and every problem of the others.
    """
    try:
        return _Checker().manifest(read_mapping(content, origin, Path()))
    except ConfigurationError as error:
        return Manifest(problems=tuple(str(error).splitlines()))
    except (ValueError, RecursionError) as error:  # a number of more digits than Python writes
        return Manifest(problems=(f"{origin}: cannot be read: {error}",))


class _Checker:
    """Walks a manifest's tree; what is wrong goes to `problems`, the sound rest into entries."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def manifest(self, root: Mapping) -> Manifest:
        self._known(root, (), ("plugformer", "components", "tasks", "hooks", "commands"))
        requires = self._text(root, (), "plugformer")
        components = [
            replace(entry, expected_failures=self._expected_failures(block, entry))
            for key, kind, block in self._kinds(root)
            for entry in self._entries(block, ("components", key), "class", _as_component(kind), is_attribute)
        ]
        tasks = self._section(root, "tasks", "file", TaskEntry, is_task_file)
        commands = self._section(root, "commands", "function", CommandEntry, is_attribute)
        hooks = self._modules(root)
        return Manifest(
            requires=requires,
            components=tuple(components),
            tasks=tuple(tasks),
            hooks=hooks,
            commands=tuple(commands),
            problems=tuple(report([problem]) for problem in self.problems),
        )

    def _kinds(self, root: Mapping) -> Iterable[tuple[str, Kind, Mapping]]:
        section = self._mapping(root, (), "components")
        self._known(section, ("components",), [kind.value for kind in Kind], what="kind")
        for kind in Kind:
            if kind.value in section.items:
                yield kind.value, kind, self._mapping(section, ("components",), kind.value)

    def _section(
        self,
        root: Mapping,
        key: str,
        target: str,
        make: Callable[[str, str, str], E],
        valid: Callable[[str], bool],
    ) -> list[E]:
        block = self._mapping(root, (), key)
        return self._entries(block, (key,), target, lambda name, to, text, _: make(name, to, text), valid)

    def _entries(
        self,
        block: Mapping,
        path: tuple[Key, ...],
        target_key: str,
        make: Callable[[str, str, str, str], E],
        valid: Callable[[str], bool],
    ) -> list[E]:
        """Reads entries such as `gqa: {class: ..., summary: ..., source: ...}`."""
        found: list[E] = []
        keys = [target_key, "summary", *(["source", "expected_failures"] if target_key == "class" else [])]
        for name in block.items:
            before = len(self.problems)
            here = (*path, name)
            if not (isinstance(name, str) and NAME.fullmatch(name)):
                message = f"{name!r} is not a name: letters, digits, - and _, a letter first"
                self.problems.append(Problem(block.keys[name], here, message))
            entry = self._mapping(block, path, name)
            self._known(entry, here, keys)
            target = self._target(entry, here, target_key, valid)
            summary, source = self._text(entry, here, "summary"), self._text(entry, here, "source")
            if len(self.problems) == before:
                found.append(make(str(name), target, summary, source))
        return found

    def _expected_failures(self, block: Mapping, entry: ComponentEntry) -> tuple[tuple[str, str], ...]:
        """Reads `expected_failures: {check: reason}`; each needs its reason."""
        path = ("components", entry.kind.value, entry.name)
        reasons = self._mapping(self._mapping(block, path[:2], entry.name), path, "expected_failures")
        found = {
            str(name): self._text(reasons, (*path, "expected_failures"), str(name)) for name in reasons.items
        }
        for name, reason in found.items():
            if not reason.strip():
                place = (*path, "expected_failures", name)
                self.problems.append(Problem(reasons.origin, place, "expected the reason, as text"))
        return tuple(found.items())

    def _target(self, entry: Mapping, path: tuple[Key, ...], key: str, valid: Callable[[str], bool]) -> str:
        if key not in entry.items:
            self.problems.append(Problem(entry.origin, path, f"{key!r} is missing"))
            return ""
        target = self._text(entry, path, key)
        if target and not valid(target):
            message = f"{target!r} is not of the form {_FORMS[key]}"
            self.problems.append(Problem(entry.items[key].origin, (*path, key), message))
        return target

    def _modules(self, root: Mapping) -> tuple[str, ...]:
        node = root.items.get("hooks")
        if node is None:
            return ()
        values = [item.value if isinstance(item, Scalar) else None for item in _items(node)]
        names = [value for value in values if isinstance(value, str) and is_module(value)]
        if not isinstance(node, Sequence) or len(names) != len(values):
            self.problems.append(Problem(node.origin, ("hooks",), "expected a list of module names"))
        return tuple(names)

    def _mapping(self, parent: Mapping, path: tuple[Key, ...], key: Key) -> Mapping:
        """Returns the mapping under a key; an empty one if there is nothing."""
        node = parent.items.get(key)
        if isinstance(node, Mapping):
            return node
        if node is not None and not (isinstance(node, Scalar) and node.value is None):
            self.problems.append(Problem(node.origin, (*path, key), "expected a mapping of keys to values"))
        return Mapping({}, {}, parent.origin if node is None else node.origin)

    def _text(self, parent: Mapping, path: tuple[Key, ...], key: str) -> str:
        node = parent.items.get(key)
        if node is None:
            return ""
        if isinstance(node, Scalar) and isinstance(node.value, str):
            return node.value
        shown = repr(node.value) if isinstance(node, Scalar) else "a list or mapping"
        self.problems.append(Problem(node.origin, (*path, key), f"expected text, found {shown}"))
        return ""

    def _known(
        self, block: Mapping, path: tuple[Key, ...], known: Collection[str], what: str = "key"
    ) -> None:
        for key in block.items:
            if key not in known:
                message = f"unknown {what} {key!r}{nearest(str(key), known)}"
                hint = f"known: {', '.join(known)}"
                self.problems.append(Problem(block.keys[key], (*path, key), message, hint))


_LONGEST = 250
_FORMS = {"class": "'module:Class'", "function": "'module:function'", "file": "'package:path/in/it.yaml'"}


def is_module(text: str) -> bool:
    """Whether the text is a dotted module name, short enough for a file system."""
    return all(part.isidentifier() for part in text.split(".")) and _names_a_file(text)


def is_attribute(text: str) -> bool:
    """Whether the text has the form `module:Class`."""
    module, _, attribute = text.partition(":")
    return is_module(module) and attribute.isidentifier()


def is_task_file(text: str) -> bool:
    """Whether the text has the form `package:path/in/it.yaml`, the path inside the top-level package."""
    package, _, path = text.partition(":")
    parts = PurePosixPath(path).parts
    inside = bool(parts) and parts[0] != "/" and ".." not in parts and "\\" not in path
    return package.isidentifier() and inside and path.endswith(".yaml") and _names_a_file(text)


def _names_a_file(text: str) -> bool:
    """Whether no part of the text has more bytes than file systems allow in a name (`NAME_MAX`)."""
    return len(text.encode(errors="surrogatepass")) <= _LONGEST


def _items(node: Node) -> tuple[Node, ...]:
    return node.items if isinstance(node, Sequence) else ()


def _as_component(kind: Kind) -> Callable[[str, str, str, str], ComponentEntry]:
    return lambda name, target, summary, source: ComponentEntry(kind, name, target, summary, source)
