"""The manifest: what a distribution offers, written in its `registry.yaml`; an entry for each thing.

It is read without pydantic, so that `list` and `--help` are fast. Nothing that it names is imported.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from plugformer.errors import ConfigurationError, nearest
from plugformer.yaml_tree import KeyPath, MappingNode, Problem, ScalarNode, SequenceNode, plain, read_mapping


class Kind(StrEnum):
    """A replaceable part. Its value is the key under which a task file names a component of most kinds."""

    TASK_TYPE = "task_type"
    ARCHITECTURE = "architecture"
    TOKENIZER = "tokenizer"
    POSITION = "position"
    ATTENTION = "attention"
    FEED_FORWARD = "feed_forward"
    NORM = "norm"
    RESIDUAL = "residual"
    HEAD = "head"
    INITIALIZATION = "initialization"
    DATA = "data"
    COLUMN = "column"
    METRIC = "metric"
    SCHEDULE = "schedule"
    OPTIMIZER = "optimizer"
    DECODING = "decoding"
    HOOK = "hook"


INTERFACES = {kind: kind.title().replace("_", "") for kind in Kind}
INTERFACES |= {Kind.POSITION: "PositionalEncoding", Kind.COLUMN: "ColumnKind"}
"""The class in `plugformer.interfaces` that the components of a kind implement."""


NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_MODULE = r"[^\W\d]\w*(\.[^\W\d]\w*)*"
_MEMBER = rf"{_MODULE}:[^\W\d]\w*"
_FORMS = {
    "component": ("class", "module:Class", _MEMBER),
    "command": ("function", "module:function", _MEMBER),
    "task": ("file", "package:path/in/it.yaml", r"[^\W\d]\w*:(?!/|.*\.\.)[^\\\n]+\.yaml"),
}
"""The key, the form in words and the pattern of what an entry names."""


class EntryState(StrEnum):
    """Whether something can be used; if BROKEN, its manifest is sound, but loading it fails."""

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
class Entry:
    """A component, a task, a command or a module with hooks; or a plugin itself.

    Attributes:
        name: The name in its manifest; a plugin's is that of its distribution.
        target: `module:Class` or `module:function`; of a task `package:path/in/it.yaml`, of hooks `module`.
        source: Paper or documentation.
        distribution: The distribution that offers it, or `local` or `session`.
        cause: The reason why it cannot be used; empty if it can.
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
    state: EntryState = EntryState.READY
    cause: str = ""
    expected_failures: tuple[tuple[str, str], ...] = ()
    file: str = ""
    component: type | None = None

    @property
    def owner(self) -> str:
        """The distribution that offers it, with its version, for messages."""
        return f"{self.distribution} {self.version}".rstrip()


@dataclass(frozen=True, slots=True)
class Plugin:
    """The content of a manifest, and the distribution that it belongs to.

    Attributes:
        requires: Versions of Plugformer that it works with, as a version specifier; empty for any.
        entries: Components, tasks, commands and modules with hook implementations, in this order.
        problems: The reasons why the plugin is quarantined: nothing of it may be used. Empty if it is sound.
        distribution: As for its entries, like `version` and `file`.
    """

    requires: str = ""
    entries: tuple[Entry, ...] = ()
    problems: tuple[str, ...] = ()
    distribution: str = ""
    version: str = ""
    file: str = ""

    @property
    def offers(self) -> list[Entry]:
        """The entries with their distribution and state, and the plugin itself if it is quarantined."""
        return [*map(self._owned, self.entries), *([self.entry] if self.problems else [])]

    @property
    def entry(self) -> Entry:
        """The plugin itself; its summary counts what it offers."""
        words: dict[str, str] = {**dict.fromkeys(Kind, "component"), EntryKind.HOOKS: "hook module"}
        counts = Counter(words.get(entry.kind, entry.kind) for entry in self.entries)
        summary = ", ".join(f"{count} {word}{'s' * (count > 1)}" for word, count in counts.items())
        return self._owned(Entry(EntryKind.PLUGIN, self.distribution, "", summary))

    def _owned(self, entry: Entry) -> Entry:
        owner: Any = {"distribution": self.distribution, "version": self.version, "file": self.file}
        state = EntryState.QUARANTINED if self.problems else EntryState.READY
        return replace(entry, state=state, cause="\n".join(self.problems), **owner)


def parse(content: bytes, origin: str) -> Plugin:
    """Returns a manifest with its sound entries, and the problems of the others; they name `origin`."""
    try:
        return _Checker().manifest(read_mapping(content, origin, Path()))
    except ConfigurationError as error:
        return Plugin(problems=tuple(str(error).splitlines()))


class _Checker:
    """Walks a manifest's tree and collects its sound entries and its problems."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def manifest(self, root: MappingNode) -> Plugin:
        self.check_keys(root, (), ["plugformer", "components", "tasks", "hooks", "commands"])
        components = self.mapping(root, ("components",), list(Kind))
        kinds = [kind for kind in Kind if kind in components.items]
        entries = [entry for kind in kinds for entry in self.entries(components, ("components", kind), kind)]
        entries += self.entries(root, ("tasks",), EntryKind.TASK)
        entries += self.entries(root, ("commands",), EntryKind.COMMAND)
        hooks = root.items.get("hooks", SequenceNode((), root.origin))
        names = plain(hooks)
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            entries += [Entry(EntryKind.HOOKS, name, name) for name in names]
        else:
            self.problems.append(Problem(hooks.origin, ("hooks",), "expected a list of module names"))
        requires = self.text(root, ("plugformer",))
        return Plugin(requires, tuple(entries), tuple(map(str, self.problems)))

    def entries(self, parent: MappingNode, path: KeyPath, kind: Kind | EntryKind) -> list[Entry]:
        """Reads entries such as `gqa: {class: ..., summary: ..., source: ...}`."""
        is_component = isinstance(kind, Kind)
        key, form, pattern = _FORMS["component" if is_component else kind]
        known = [key, "summary", *(["source", "expected_failures"] if is_component else [])]
        entries: list[Entry] = []
        named = self.mapping(parent, path)
        for name in named.items:
            before, here = len(self.problems), (*path, name)
            if not NAME.fullmatch(str(name)):
                message = f"{name!r} is not a name: letters, digits, - and _, a letter first"
                self.problems.append(Problem(named.keys[name], here, message))
            node = self.mapping(named, here, known)
            target, summary, source = (self.text(node, (*here, part)) for part in (key, "summary", "source"))
            if key not in node.items:
                self.problems.append(Problem(node.origin, here, f"{key!r} is missing"))
            elif target and not re.fullmatch(pattern, target):
                message = f"{target!r} is not of the form {form!r}"
                self.problems.append(Problem(node.items[key].origin, (*here, key), message))
            below = (*here, "expected_failures")
            reasons = self.mapping(node, below)
            failures = tuple((str(check), self.text(reasons, (*below, check))) for check in reasons.items)
            if len(self.problems) == before:
                entries.append(Entry(kind, str(name), target, summary, source, expected_failures=failures))
        return entries

    def mapping(self, parent: MappingNode, path: KeyPath, known: Sequence[str] = ()) -> MappingNode:
        """Returns the mapping at a path, with known keys if some are given; an empty one if there is none."""
        node = parent.items.get(path[-1])
        if isinstance(node, MappingNode):
            self.check_keys(node, path, known)
            return node
        if node is not None and plain(node) is not None:
            self.problems.append(Problem(node.origin, path, "expected a mapping of keys to values"))
        return MappingNode({}, {}, (node or parent).origin)

    def text(self, parent: MappingNode, path: KeyPath) -> str:
        """Returns the text at a path, or an empty one."""
        node = parent.items.get(path[-1], ScalarNode("", parent.origin))
        if isinstance(value := plain(node), str):
            return value
        self.problems.append(Problem(node.origin, path, f"expected text, found {value!r}"))
        return ""

    def check_keys(self, node: MappingNode, path: KeyPath, known: Sequence[str]) -> None:
        for key in (key for key in node.items if known and key not in known):
            message = f"unknown key {key!r}{nearest(str(key), known)}"
            self.problems.append(Problem(node.keys[key], (*path, key), message, f"known: {', '.join(known)}"))
