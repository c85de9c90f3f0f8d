"""The manifest: what a distribution offers, written in its `registry.yaml`; an entry for each thing.

Read into plain dataclasses, so that `list` and `--help` need neither torch nor pydantic, and so that nothing
that a manifest names is imported.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath

from plugformer.documents import Mapping, Scalar, Sequence, read_mapping
from plugformer.errors import ConfigurationError, nearest
from plugformer.kinds import Kind
from plugformer.problems import Key, KeyPath, Problem

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


class State(StrEnum):
    """Whether something can be used.

    BROKEN is what only trying shows: manifests look sound, but loading fails.
    """

    READY = "ready"
    CONFLICT = "in conflict"
    QUARANTINED = "quarantined"
    BROKEN = "broken"


class EntryKind(StrEnum):
    """What a manifest offers besides components, and the plugin itself."""

    TASK = "task"
    COMMAND = "command"
    HOOKS = "hooks"
    PLUGIN = "plugin"


@dataclass(frozen=True, slots=True)
class Owner:
    """Who offers something: a distribution and its version; `local` has no version."""

    distribution: str
    version: str = ""

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}".rstrip()


@dataclass(frozen=True, slots=True)
class Entry:
    """A component, a task, a command or a module with hooks; or a plugin itself.

    Attributes:
        kind: What it is.
        name: The name in its manifest; a plugin's is that of its distribution.
        target: Where it is, as `module:Class`; of a task `package:path/in/it.yaml`, of hooks `module`.
        summary: One sentence about it.
        source: Paper or documentation.
        distribution: The distribution that offers it, or `local`.
        version: That distribution's version; empty for `local`.
        state: Whether it can be used.
        cause: Why it cannot; empty if it can.
        expected_failures: Names of contract checks that its author knows to fail, with the reasons.
        file: The path of the local manifest that offers it; else empty.
        component: The class itself, if a session registered one; else None.
    """

    kind: Kind | EntryKind
    name: str
    target: str
    summary: str = ""
    source: str = ""
    distribution: str = ""
    version: str = ""
    state: State = State.READY
    cause: str = ""
    expected_failures: tuple[tuple[str, str], ...] = ()
    file: str = ""
    component: type | None = None

    @property
    def owner(self) -> Owner:
        """The distribution and version that offer it."""
        return Owner(self.distribution, self.version)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a manifest says.

    Attributes:
        requires: Versions of Plugformer that it works with, as a version specifier; empty for any.
        entries: Components, tasks, commands and modules with hook implementations, in this order.
        problems: Everything that is wrong with it; nothing in it may be used unless this is empty.
    """

    requires: str = ""
    entries: tuple[Entry, ...] = ()
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
        components = self._mapping(root, (), "components")
        self._known(components, ("components",), [kind.value for kind in Kind], what="kind")
        entries: list[Entry] = []
        for kind in Kind:
            entries += self._entries(components, ("components", kind.value), "class", kind)
        entries += self._entries(root, ("tasks",), "file", EntryKind.TASK)
        entries += self._entries(root, ("commands",), "function", EntryKind.COMMAND)
        entries += self._hooks(root)
        return Manifest(requires, tuple(entries), tuple(map(str, self.problems)))

    def _entries(
        self, parent: Mapping, path: KeyPath, target_key: str, kind: Kind | EntryKind
    ) -> list[Entry]:
        """Reads entries such as `gqa: {class: ..., summary: ..., source: ...}`."""
        block = self._mapping(parent, path[:-1], path[-1])
        found: list[Entry] = []
        keys = [target_key, "summary", *(["source", "expected_failures"] if target_key == "class" else [])]
        for name in block.items:
            before = len(self.problems)
            here = (*path, name)
            if not (isinstance(name, str) and NAME.fullmatch(name)):
                message = f"{name!r} is not a name: letters, digits, - and _, a letter first"
                self.problems.append(Problem(block.keys[name], here, message))
            entry = self._mapping(block, path, name)
            self._known(entry, here, keys)
            target = self._target(entry, here, target_key)
            summary, source = self._text(entry, here, "summary"), self._text(entry, here, "source")
            failures = self._expected_failures(entry, here) if target_key == "class" else ()
            if len(self.problems) == before:
                found.append(Entry(kind, str(name), target, summary, source, expected_failures=failures))
        return found

    def _expected_failures(self, entry: Mapping, path: KeyPath) -> tuple[tuple[str, str], ...]:
        """Reads `expected_failures: {check: reason}`; each needs its reason."""
        path = (*path, "expected_failures")
        reasons = self._mapping(entry, path[:-1], "expected_failures")
        found = {str(name): self._text(reasons, path, str(name)) for name in reasons.items}
        for name, reason in found.items():
            if not reason.strip():
                self.problems.append(Problem(reasons.origin, (*path, name), "expected the reason, as text"))
        return tuple(found.items())

    def _target(self, entry: Mapping, path: KeyPath, key: str) -> str:
        if key not in entry.items:
            self.problems.append(Problem(entry.origin, path, f"{key!r} is missing"))
            return ""
        target = self._text(entry, path, key)
        form, valid = _FORMS[key]
        if target and not valid(target):
            message = f"{target!r} is not of the form {form}"
            self.problems.append(Problem(entry.items[key].origin, (*path, key), message))
        return target

    def _hooks(self, root: Mapping) -> list[Entry]:
        node = root.items.get("hooks")
        if node is None:
            return []
        items = node.items if isinstance(node, Sequence) else ()
        values = [item.value if isinstance(item, Scalar) else None for item in items]
        names = [value for value in values if isinstance(value, str) and is_module(value)]
        if not isinstance(node, Sequence) or len(names) != len(values):
            self.problems.append(Problem(node.origin, ("hooks",), "expected a list of module names"))
        return [Entry(EntryKind.HOOKS, name, name) for name in names]

    def _mapping(self, parent: Mapping, path: KeyPath, key: Key) -> Mapping:
        """Returns the mapping under a key; an empty one if there is nothing."""
        node = parent.items.get(key)
        if isinstance(node, Mapping):
            return node
        if node is not None and not (isinstance(node, Scalar) and node.value is None):
            self.problems.append(Problem(node.origin, (*path, key), "expected a mapping of keys to values"))
        return Mapping({}, {}, parent.origin if node is None else node.origin)

    def _text(self, parent: Mapping, path: KeyPath, key: str) -> str:
        node = parent.items.get(key)
        if node is None:
            return ""
        if isinstance(node, Scalar) and isinstance(node.value, str):
            return node.value
        shown = repr(node.value) if isinstance(node, Scalar) else "a list or mapping"
        self.problems.append(Problem(node.origin, (*path, key), f"expected text, found {shown}"))
        return ""

    def _known(self, block: Mapping, path: KeyPath, known: Collection[str], what: str = "key") -> None:
        for key in block.items:
            if key not in known:
                message = f"unknown {what} {key!r}{nearest(str(key), known)}"
                hint = f"known: {', '.join(known)}"
                self.problems.append(Problem(block.keys[key], (*path, key), message, hint))


_LONGEST = 250


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


_FORMS = {
    "class": ("'module:Class'", is_attribute),
    "function": ("'module:function'", is_attribute),
    "file": ("'package:path/in/it.yaml'", is_task_file),
}
"""How targets look, by the key that they stand under."""


def _names_a_file(text: str) -> bool:
    """Whether no part of the text has more bytes than file systems allow in a name (`NAME_MAX`)."""
    return len(text.encode(errors="surrogatepass")) <= _LONGEST
