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
from plugformer.yaml_reader import read_mapping
from plugformer.yaml_tree import Key, KeyPath, Problem, Tree


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
    CONSTRAINT = "constraint"
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
        return _Checker(read_mapping(content, origin, Path())).manifest()
    except ConfigurationError as error:
        return Plugin(problems=tuple(str(error).splitlines()))


class _Checker:
    """Walks a manifest's tree and collects its sound entries and its problems."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.problems: list[Problem] = []

    def manifest(self) -> Plugin:
        """Returns the sound entries, and the problems of the others."""
        self.check_keys((), ["plugformer", "components", "tasks", "hooks", "commands"])
        known = self.mapping(("components",), list(Kind))
        kinds = [kind for kind in Kind if kind in known]
        entries = [entry for kind in kinds for entry in self.entries(("components", kind), kind)]
        entries += self.entries(("tasks",), EntryKind.TASK)
        entries += self.entries(("commands",), EntryKind.COMMAND)
        names = self.tree.get(("hooks",), [])
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            entries += [Entry(EntryKind.HOOKS, name, name) for name in names]
        else:
            self.add(("hooks",), "expected a list of module names")
        requires = self.text(("plugformer",))
        return Plugin(requires, tuple(entries), tuple(map(str, self.problems)))

    def entries(self, path: KeyPath, kind: Kind | EntryKind) -> list[Entry]:
        """Reads entries such as `gqa: {class: ..., summary: ..., source: ...}`."""
        is_component = isinstance(kind, Kind)
        key, form, pattern = _FORMS["component" if is_component else kind]
        known = [key, "summary", *(["source", "expected_failures"] if is_component else [])]
        entries: list[Entry] = []
        for name in self.mapping(path):
            before, here = len(self.problems), (*path, name)
            if not NAME.fullmatch(str(name)):
                self.add(
                    here, f"{name!r} is not a name: letters, digits, - and _, a letter first", at_key=True
                )
            block = self.mapping(here, known)
            target, summary, source = (self.text((*here, part)) for part in (key, "summary", "source"))
            if key not in block:
                self.add(here, f"{key!r} is missing")
            elif target and not re.fullmatch(pattern, target):
                self.add((*here, key), f"{target!r} is not of the form {form!r}")
            below = (*here, "expected_failures")
            failures = tuple((str(check), self.text((*below, check))) for check in self.mapping(below))
            if len(self.problems) == before:
                entries.append(Entry(kind, str(name), target, summary, source, expected_failures=failures))
        return entries

    def mapping(self, path: KeyPath, known: Sequence[str] = ()) -> dict[Key, Any]:
        """Returns the mapping at a path, with known keys if some are given; an empty one if there is none."""
        value = self.tree.get(path)
        if isinstance(value, dict):
            self.check_keys(path, known)
            return value
        if value is not None:
            self.add(path, "expected a mapping of keys to values")
        return {}

    def text(self, path: KeyPath) -> str:
        """Returns the text at a path, or an empty one."""
        if isinstance(value := self.tree.get(path, ""), str):
            return value
        self.add(path, f"expected text, found {value!r}")
        return ""

    def check_keys(self, path: KeyPath, known: Sequence[str]) -> None:
        """Adds a problem for each key of the mapping at a path that is not known, if some are."""
        for key in (key for key in self.tree.get(path) if known and key not in known):
            message = f"unknown key {key!r}{nearest(str(key), known)}"
            self.add((*path, key), message, f"known: {', '.join(known)}", at_key=True)

    def add(self, path: KeyPath, message: str, hint: str = "", *, at_key: bool = False) -> None:
        """Adds a problem at a path, of its value or its key."""
        self.problems.append(Problem(self.tree.origin(path, key=at_key), path, message, hint))
