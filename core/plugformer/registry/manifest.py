"""The manifest: what a distribution offers, written in its `registry.yaml`; an entry for each thing.

It is read without pydantic, so that `list` and `--help` are fast. Nothing that it names is imported.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from inspect import cleandoc
from pathlib import Path
from typing import Any

from plugformer.errors import ConfigurationError, nearest
from plugformer.registry.source import description, docstring
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
    PARAMETRIZATION = "parametrization"
    DATA = "data"
    COLUMN = "column"
    METRIC = "metric"
    BASELINE = "baseline"
    SCHEDULE = "schedule"
    OPTIMIZER = "optimizer"
    DECODING = "decoding"
    CONSTRAINT = "constraint"
    CALLBACK = "callback"
    ENGINE = "engine"


INTERFACES = {kind: kind.title().replace("_", "") for kind in Kind}
INTERFACES |= {Kind.POSITION: "PositionalEncoding", Kind.COLUMN: "ColumnKind"}
"""The class in `plugformer.interfaces` that the components of a kind implement."""


@dataclass(frozen=True, slots=True)
class Contract:
    """The versions of a kind's contract.

    Attributes:
        version: What its interface and checks are now; a change that breaks components raises it.
        dropped: The releases of Plugformer that stopped to support version 1, 2 and so on.
    """

    version: int = 1
    dropped: tuple[str, ...] = ()

    @property
    def supported(self) -> str:
        """The versions that components may be written for: `1`, or `2 to 3`."""
        oldest = len(self.dropped) + 1
        return f"{oldest} to {self.version}" if oldest < self.version else str(self.version)


CONTRACTS: dict[str, Contract] = dict.fromkeys(Kind, Contract())
"""The contract of each kind."""


NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_MODULE = r"[^\W\d]\w*(\.[^\W\d]\w*)*"
_CLASS = "module:Class", rf"{_MODULE}:[^\W\d]\w*"
_FUNCTION = "module:function", _CLASS[1]
_TASK = "package:path/in/it.yaml", r"[^\W\d]\w*:(?!/|.*\.\.)[^\\\n]+\.yaml"
"""The forms of what an entry names, in words and as patterns."""

_URL = re.compile(r"https?://[^\s>)\]]*[^\s>)\].,;:]")


class EntryState(StrEnum):
    """Whether something can be used; whether it can be loaded is known when it is used."""

    READY = "ready"
    CONFLICT = "in conflict"
    QUARANTINED = "quarantined"


class EntryKind(StrEnum):
    """What a manifest offers besides components, and the plugin itself."""

    TASK = "task"
    COMMAND = "command"
    CALLBACKS = "callbacks"
    PLUGIN = "plugin"


@dataclass(frozen=True, slots=True)
class Entry:
    """A component, a task, a command or a module of callbacks; or a plugin itself.

    Attributes:
        name: The name in its manifest; a plugin's is that of its distribution.
        target: `module:Class` or `module:function`; of a task `package:path/in/it.yaml`, of callbacks
            `module`, of a plugin the numbers of what it offers.
        distribution: The distribution that offers it, or `local` or `session`.
        cause: The reason why it cannot be used; empty if it can.
        contract: The version of its kind's contract that a component is written for.
        expected_failures: Names of contract checks that its author knows to fail, with the reasons.
        defaults: Defaults of options that the name has in place of those of the class, as in a task file.
        description: What it is, if the manifest says so in place of the docstring of the class.
        file: The path of the local manifest that offers it; else empty.
        component: The class itself, if a session registered one; else None.
    """

    kind: Kind | EntryKind
    name: str
    target: str
    distribution: str = ""
    version: str = ""
    state: EntryState = EntryState.READY
    cause: str = ""
    contract: int = 1
    expected_failures: tuple[tuple[str, str], ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
    description: str = ""
    file: str = ""
    component: type | None = None

    @property
    def documentation(self) -> str:
        """The docstring of what it names, a task's description, a plugin's numbers; nothing is imported."""
        if self.description:
            return self.description
        if self.component is not None:
            return cleandoc(self.component.__doc__ or "")
        if self.kind is EntryKind.PLUGIN:
            return self.target
        return (description if self.kind is EntryKind.TASK else docstring)(self.target)

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return self.documentation.partition("\n")[0]

    @property
    def source(self) -> str:
        """A paper or a page about it: the first link in its documentation."""
        found = _URL.search(self.documentation)
        return found[0] if found else ""

    @property
    def owner(self) -> str:
        """The distribution that offers it, with its version, for messages."""
        return f"{self.distribution} {self.version}".rstrip()


@dataclass(frozen=True, slots=True)
class Plugin:
    """The content of a manifest, and the distribution that it belongs to.

    Attributes:
        requires: Versions of Plugformer that it works with, as a version specifier; empty for any.
        entries: Components, tasks, commands and modules of callbacks, in this order.
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
        """The plugin itself."""
        words: dict[str, str] = {**dict.fromkeys(Kind, "component"), EntryKind.CALLBACKS: "callback module"}
        counts = Counter(words.get(entry.kind, entry.kind) for entry in self.entries)
        summary = ", ".join(f"{count} {word}{'s' * (count > 1)}" for word, count in counts.items())
        return self._owned(Entry(EntryKind.PLUGIN, self.distribution, summary))

    def _owned(self, entry: Entry) -> Entry:
        owner: Any = {"distribution": self.distribution, "version": self.version, "file": self.file}
        cause = "\n".join(self.problems) or entry.cause
        state = EntryState.QUARANTINED if cause else EntryState.READY
        return replace(entry, state=state, cause=cause, **owner)


def parse(content: bytes, origin: str) -> Plugin:
    """Returns a manifest with its sound entries, and the problems of the others; they name `origin`."""
    try:
        return _ManifestReader(read_mapping(content, origin, Path())).manifest()
    except ConfigurationError as error:
        return Plugin(problems=tuple(str(error).splitlines()))


class _ManifestReader:
    """Walks a manifest's tree and collects its sound entries and its problems."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.problems: list[Problem] = []

    def manifest(self) -> Plugin:
        """Returns the sound entries, and the problems of the others."""
        self.mapping((), ("plugformer", "contracts", "components", "tasks", "callbacks", "commands"))
        known, contracts = self.mapping(("components",), tuple(Kind)), self.contracts()
        entries = [
            replace(entry, contract=contracts.get(kind, 1))
            for kind in Kind
            if kind in known
            for entry in self.entries(("components", kind), kind, *_CLASS)
        ]
        entries += self.entries(("tasks",), EntryKind.TASK, *_TASK)
        entries += self.entries(("commands",), EntryKind.COMMAND, *_FUNCTION)
        names = self.tree.get(("callbacks",), [])
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            entries += [Entry(EntryKind.CALLBACKS, name, name) for name in names]
        else:
            self.add(("callbacks",), "expected a list of module names")
        requires = self.text(("plugformer",))
        return Plugin(requires, tuple(entries), tuple(map(str, self.problems)))

    def entries(self, path: KeyPath, kind: Kind | EntryKind, form: str, pattern: str) -> Iterator[Entry]:
        """Yields entries: `gqa: module:Class`, or `gqa: {class: module:Class, defaults: ...}`."""
        for name, value in self.mapping(path).items():
            before, here = len(self.problems), (*path, name)
            if not NAME.fullmatch(str(name)):
                message = f"{name!r} is not a name: letters, digits, - and _, a letter first"
                self.add(here, message, at_key=True)
            said: dict[str, Any] = {}
            place = here
            if isinstance(kind, Kind) and isinstance(value, dict):
                self.mapping(here, ("class", "description", "defaults", "expected_failures"))
                place, below = (*here, "class"), (*here, "expected_failures")
                failures = tuple((str(check), self.text((*below, check))) for check in self.mapping(below))
                said = {"expected_failures": failures, "defaults": self.mapping((*here, "defaults"))}
                said["description"] = self.text((*here, "description"))
            target = self.text(place)
            if not re.fullmatch(pattern, target):
                self.add(place, f"{target!r} is not of the form {form!r}")
            if len(self.problems) == before:
                yield Entry(kind, str(name), target, **said)

    def contracts(self) -> dict[Key, int]:
        """Returns the versions of contracts that a manifest states, by kind."""
        stated = self.mapping(("contracts",), tuple(Kind))
        sound = {kind: version for kind, version in stated.items() if type(version) is int and version > 0}
        for kind in stated.keys() - sound.keys():
            message = f"expected the version of a contract, such as 1, found {stated[kind]!r}"
            self.add(("contracts", kind), message)
        return sound

    def mapping(self, path: KeyPath, known: Sequence[str] = ()) -> dict[Key, Any]:
        """Returns the mapping at a path, with known keys if some are given; an empty one if there is none."""
        value = self.tree.get(path)
        if not isinstance(value, dict):
            if value is not None:
                self.add(path, "expected a mapping of keys to values")
            return {}
        for key in (key for key in value if known and key not in known):
            message = f"unknown key {key!r}{nearest(str(key), known)}"
            self.add((*path, key), message, f"known: {', '.join(known)}", at_key=True)
        return value

    def text(self, path: KeyPath) -> str:
        """Returns the text at a path, or an empty one."""
        if isinstance(value := self.tree.get(path, ""), str):
            return value
        self.add(path, f"expected text, found {value!r}")
        return ""

    def add(self, path: KeyPath, message: str, hint: str = "", *, at_key: bool = False) -> None:
        """Adds a problem at a path, of its value or its key."""
        self.problems.append(Problem(self.tree.origin(path, key=at_key), path, message, hint))
