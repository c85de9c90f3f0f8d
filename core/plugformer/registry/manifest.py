"""The manifest: what a distribution offers, written in its `registry.yaml`; an entry for each thing.

It is read into plain dataclasses, so that `list` and `--help` need neither torch nor pydantic. Nothing
that it names is imported.
"""

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path, PurePosixPath

from plugformer.errors import ConfigurationError, nearest
from plugformer.yaml_tree import KeyPath, MappingNode, Problem, ScalarNode, SequenceNode, plain, read_mapping


class Kind(StrEnum):
    """A replaceable part. Its value is the key under which a task file names a component of the kind.

    The exceptions are the task type, whose key is `type`, and the metrics and hooks, which are lists.
    """

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
    METRIC = "metric"
    SCHEDULE = "schedule"
    OPTIMIZER = "optimizer"
    DECODING = "decoding"
    HOOK = "hook"


INTERFACES = {
    Kind.TASK_TYPE: "TaskType",
    Kind.ARCHITECTURE: "Architecture",
    Kind.TOKENIZER: "Tokenizer",
    Kind.POSITION: "PositionalEncoding",
    Kind.ATTENTION: "Attention",
    Kind.FEED_FORWARD: "FeedForward",
    Kind.NORM: "Norm",
    Kind.RESIDUAL: "Residual",
    Kind.HEAD: "Head",
    Kind.INITIALIZATION: "Initialization",
    Kind.DATA: "Data",
    Kind.METRIC: "Metric",
    Kind.SCHEDULE: "Schedule",
    Kind.OPTIMIZER: "Optimizer",
    Kind.DECODING: "Decoding",
    Kind.HOOK: "Hook",
}
"""The class in `plugformer.interfaces` that the components of a kind implement."""


NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


class EntryState(StrEnum):
    """Whether something can be used; BROKEN: its manifest is sound, but loading it fails."""

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
        kind: What it is.
        name: The name in its manifest; a plugin's is that of its distribution.
        target: `module:Class` or `module:function`; of a task `package:path/in/it.yaml`, of hooks `module`.
        summary: One sentence about it.
        source: Paper or documentation.
        distribution: The distribution that offers it, or `local` or `session`.
        version: That distribution's version, if it has one.
        state: Whether it can be used.
        cause: The reason why it cannot; empty if it can.
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
        distribution: The name of the distribution, or `local` or `session`.
        version: The version of the distribution, if it has one.
        file: The path of a local manifest; else empty.
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
        return replace(
            entry,
            distribution=self.distribution,
            version=self.version,
            state=EntryState.QUARANTINED if self.problems else EntryState.READY,
            cause="\n".join(self.problems),
            file=self.file,
        )


def parse(content: bytes, origin: str) -> Plugin:
    """Returns a manifest with its sound entries, and the problems of the others; they name `origin`."""
    try:
        return _Checker().manifest(read_mapping(content, origin, Path()))
    except ConfigurationError as error:
        return Plugin(problems=tuple(str(error).splitlines()))
    except (ValueError, RecursionError) as error:  # a number with too many digits, or deep nesting
        return Plugin(problems=(f"{origin}: cannot be read: {error}",))


class _Checker:
    """Walks a manifest's tree and collects its sound entries and its problems."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def manifest(self, root: MappingNode) -> Plugin:
        self._check_keys(root, (), ("plugformer", "components", "tasks", "hooks", "commands"))
        requires = self._text(root, (), "plugformer")
        components = self._mapping(root, (), "components")
        self._check_keys(components, ("components",), list(Kind), what="kind")
        entries: list[Entry] = []
        for kind in Kind:
            entries += self._entries(components, ("components", kind.value), "class", kind)
        entries += self._entries(root, ("tasks",), "file", EntryKind.TASK)
        entries += self._entries(root, ("commands",), "function", EntryKind.COMMAND)
        entries += self._hooks(root)
        return Plugin(requires, tuple(entries), tuple(map(str, self.problems)))

    def _entries(
        self, parent: MappingNode, path: KeyPath, target_key: str, kind: Kind | EntryKind
    ) -> list[Entry]:
        """Reads entries such as `gqa: {class: ..., summary: ..., source: ...}`."""
        named = self._mapping(parent, path[:-1], str(path[-1]))
        entries: list[Entry] = []
        optional = ["summary", "source", "expected_failures"] if target_key == "class" else ["summary"]
        for name in named.items:
            before, here = len(self.problems), (*path, name)
            if not (isinstance(name, str) and NAME.fullmatch(name)):
                message = f"{name!r} is not a name: letters, digits, - and _, a letter first"
                self.problems.append(Problem(named.keys[name], here, message))
            node = self._mapping(named, path, name)
            self._check_keys(node, here, [target_key, *optional])
            target = self._target(node, here, target_key)
            summary, source = self._text(node, here, "summary"), self._text(node, here, "source")
            reasons = self._mapping(node, here, "expected_failures")
            below = (*here, "expected_failures")
            failures = tuple((str(check), self._text(reasons, below, check)) for check in reasons.items)
            if len(self.problems) == before:
                entries.append(Entry(kind, str(name), target, summary, source, expected_failures=failures))
        return entries

    def _target(self, entry: MappingNode, path: KeyPath, key: str) -> str:
        if key not in entry.items:
            self.problems.append(Problem(entry.origin, path, f"{key!r} is missing"))
            return ""
        target = self._text(entry, path, key)
        is_valid = _is_task_file if key == "file" else _is_attribute
        if target and not is_valid(target):
            forms = {"file": "package:path/in/it.yaml", "class": "module:Class"}
            form = forms.get(key, f"module:{key}")
            message = f"{target!r} is not of the form {form!r}"
            self.problems.append(Problem(entry.items[key].origin, (*path, key), message))
        return target

    def _hooks(self, root: MappingNode) -> list[Entry]:
        node = root.items.get("hooks", SequenceNode((), root.origin))
        names = plain(node)
        if not (isinstance(names, list) and all(map(_is_module, names))):
            self.problems.append(Problem(node.origin, ("hooks",), "expected a list of module names"))
            return []
        return [Entry(EntryKind.HOOKS, name, name) for name in names]

    def _mapping(self, parent: MappingNode, path: KeyPath, key: str | int) -> MappingNode:
        """Returns the mapping under a key; an empty one if there is nothing."""
        node = parent.items.get(key)
        if isinstance(node, MappingNode):
            return node
        if node is not None and plain(node) is not None:
            self.problems.append(Problem(node.origin, (*path, key), "expected a mapping of keys to values"))
        return MappingNode({}, {}, parent.origin if node is None else node.origin)

    def _text(self, parent: MappingNode, path: KeyPath, key: str | int) -> str:
        node = parent.items.get(key)
        if node is None:
            return ""
        if isinstance(node, ScalarNode) and isinstance(node.value, str):
            return node.value
        value = repr(node.value) if isinstance(node, ScalarNode) else "a list or mapping"
        self.problems.append(Problem(node.origin, (*path, key), f"expected text, found {value}"))
        return ""

    def _check_keys(
        self, node: MappingNode, path: KeyPath, known: Collection[str], what: str = "key"
    ) -> None:
        for key in (key for key in node.items if key not in known):
            message = f"unknown {what} {key!r}{nearest(str(key), known)}"
            hint = f"known: {', '.join(known)}"
            self.problems.append(Problem(node.keys[key], (*path, key), message, hint))


def _is_module(text: object) -> bool:
    return isinstance(text, str) and all(part.isidentifier() for part in text.split("."))


def _is_attribute(text: str) -> bool:
    module, _, attribute = text.partition(":")
    return _is_module(module) and attribute.isidentifier()


def _is_task_file(text: str) -> bool:
    """Returns whether the text has the form `package:path/in/it.yaml`, with a path inside the package."""
    package, _, path = text.partition(":")
    file = PurePosixPath(path)
    inside = not file.is_absolute() and ".." not in file.parts and "\\" not in path
    return package.isidentifier() and inside and file.suffix == ".yaml"
