"""The registry: everything installed, by kind and name, and the way from a name to an object."""

import json
import os
import shlex
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache
from inspect import signature
from pathlib import Path
from typing import Any, Self

from plugformer.errors import RegistryError, nearest
from plugformer.registry.discovery import (
    BUILT_IN,
    LOADED,
    class_name,
    discover_built_in,
    discover_installed,
    discover_local,
    guarded,
    label,
    load_attribute,
    load_component,
    normalized,
    read_index,
)
from plugformer.registry.manifest import NAME, Entry, EntryKind, EntryState, Kind, Plugin
from plugformer.registry.source import packaged_file

SESSION = "session"
"""The distribution of classes that a Python session registers."""

AnyKind = Kind | EntryKind


class Registry:
    """What the installed distributions, local manifests and the session offer.

    A component's module is imported when it is loaded or created.

    Attributes:
        local: Absolute paths of the local manifests.
    """

    def __init__(self, plugins: Iterable[Plugin], local: Sequence[Path] = ()) -> None:
        self._plugins = tuple(plugins)
        self.local = tuple(local)
        self._by_kind: dict[str, list[Entry]] = defaultdict(list)
        for entry in _with_conflicts(entry for plugin in self._plugins for entry in plugin.offers):
            self._by_kind[entry.kind].append(entry)
        self._preferred: Mapping[str, str] = {}

    @classmethod
    def discover(cls, *local: Path) -> Self:
        """Reads the manifests of all installed distributions, and local ones.

        `PLUGFORMER_REGISTRY` names a local one if there are no others.
        """
        return cls(discover_installed())._with_manifests(local)

    @classmethod
    def built_in(cls) -> Self:
        """Returns the registry of Plugformer's own manifest, without any plugin."""
        return cls([discover_built_in()])

    @property
    def arguments(self) -> str:
        """The arguments that name the local manifests to a command: ` --registry FILE`, with the space."""
        here = Path.cwd()
        files = (file.relative_to(here) if file.is_relative_to(here) else file for file in self.local)
        return "".join(f" --registry {shlex.quote(str(file))}" for file in files)

    def with_local(self, *files: Path) -> Self:
        """Returns this registry with more local manifests; the same one again changes nothing."""
        resolved = dict.fromkeys(file.expanduser().resolve() for file in files)
        new = [file for file in resolved if file not in self.local]
        if not new:
            return self
        plugins = [*self._plugins, *map(discover_local, new)]
        return type(self)(plugins, [*self.local, *new])

    def preferring(self, distributions: Mapping[str, str]) -> Self:
        """Returns this registry, in which these distributions are meant by `kind/name` in a conflict."""
        changed = copy(self)
        changed._preferred = distributions
        return changed

    def with_components(self, components: Mapping[str, Mapping[str, type]]) -> Self:
        """Returns this registry with classes that were defined in this session; their owner is `session`.

        A name that something else has too is in conflict: `session:NAME` selects the class. Nothing is
        registered globally, so the same name may mean another class in another call.

        Example:
            `registry.with_components({"attention": {"mine": MyAttention}})`

        Raises:
            RegistryError: A kind is unknown, a name is not a name, or a value is not a class.
        """
        entries = []
        if not isinstance(components, Mapping):
            raise RegistryError(f"components: expected classes by kind and name, found {components!r}")
        for kind, named in components.items():
            for name, component in named.items():
                if not (NAME.fullmatch(name) and isinstance(component, type)):
                    raise RegistryError(f"{kind} {name!r}: expected a name and a class, found {component!r}")
                entries.append(Entry(_kind(kind), name, class_name(component), component=component))
        plugin = Plugin(entries=tuple(entries), distribution=SESSION)
        return type(self)([*self._plugins, plugin], self.local)

    def _with_manifests(self, local: Iterable[Path]) -> Self:
        """Returns this registry with local manifests, or else with the one that the environment names."""
        variable = os.environ.get("PLUGFORMER_REGISTRY")
        return self.with_local(*(local or ([Path(variable)] if variable else [])))

    def entries(self, kind: AnyKind | str | None = None) -> list[Entry]:
        """Returns everything of a kind by name; if None, all components, then the quarantined plugins."""
        if kind is not None:
            return list(self._by_kind[_kind(kind)])
        return [entry for kind in (*Kind, EntryKind.PLUGIN) for entry in self._by_kind[kind]]

    def plugins(self) -> list[Entry]:
        """Returns the installed plugins and local manifests, by name, with counts of what they offer."""
        return [plugin.entry for plugin in self._plugins if plugin.distribution != BUILT_IN]

    def offered_by(self, distribution: str) -> list[Entry]:
        """Returns everything that a distribution offers, its plugin first; nothing if there is none."""
        kinds = (*Kind, EntryKind.TASK, EntryKind.COMMAND, EntryKind.CALLBACKS)
        everything = [*self.plugins(), *(entry for kind in kinds for entry in self._by_kind[kind])]
        return [entry for entry in everything if _is_by(entry, distribution)]

    def available(self) -> list[dict[str, Any]]:
        """Returns the distributions in the index of plugins that are not installed, as it has them."""
        installed = {normalized(plugin.distribution) for plugin in self._plugins}
        return [plugin for plugin in read_index() if normalized(plugin["name"]) not in installed]

    def find(self, kind: AnyKind | str, name: str) -> Entry:
        """Returns what has a name that only one distribution offers, or the name `distribution:name`.

        Raises:
            RegistryError: The kind or name is unknown, in conflict or quarantined.
        """
        kind = _kind(kind)
        distribution, _, bare = name.rpartition(":")
        named = [entry for entry in self._by_kind[kind] if entry.name == bare and _is_by(entry, distribution)]
        usable = [entry for entry in named if entry.state is EntryState.READY]
        usable = usable or [entry for entry in named if entry.state is EntryState.CONFLICT]
        if len(usable) > 1 and (preferred := self._preferred.get(f"{kind}/{name}")):
            usable = [entry for entry in usable if _is_by(entry, preferred)] or usable
        if len(usable) == 1:
            return usable[0]
        if usable:
            offers = " and ".join(f"{entry.owner} ({entry.target})" for entry in usable)
            names = [f"{entry.distribution}:{bare}" for entry in usable]
            raise RegistryError(f"{kind} {bare!r} is offered by {offers}\nwrite {' or '.join(names)}")
        if named:
            raise RegistryError(f"{label(named[0])} is quarantined: {named[0].cause}")
        names = [entry.name for entry in self._by_kind[kind] if entry.state is not EntryState.QUARANTINED]
        lines = [f"unknown {kind} {name!r}{nearest(bare, names)}", f"known: {self.known(kind)}"]
        if broken := [entry.owner for entry in self._by_kind[EntryKind.PLUGIN]]:
            lines.append(f"quarantined, so not searched: {', '.join(broken)} (`plugformer list` says why)")
        for plugin in self.available():
            parts = [(part["kind"], part["name"]) for part in plugin["parts"]]
            if (kind, bare) in parts and distribution in ("", plugin["name"]):
                lines.append(f"{plugin['name']} has it: pip install {plugin['install']}")
        raise RegistryError("\n".join(lines))

    def find_task(self, name: str) -> Path:
        """Returns the file of a registered task, without importing the package that it lies in."""
        entry = self.find(EntryKind.TASK, name)
        if (file := packaged_file(entry.target)) is None:
            raise RegistryError(f"{label(entry)}: there is no file {entry.target!r}\ncorrect the manifest")
        return file

    def load_command(self, name: str) -> Any:
        """Imports a command: a function, or a `typer.Typer` with commands of its own."""
        entry = self.find(EntryKind.COMMAND, name)
        function = load_attribute(entry)
        if not callable(function):
            raise RegistryError(f"{label(entry)}: {entry.target} is not a function\ncorrect the manifest")
        if entry.distribution != BUILT_IN:  # else a bug of Plugformer would be blamed on the command
            LOADED[entry.target] = entry
        return function

    def load(self, kind: Kind | str, name: str) -> type:
        """Imports a component's class, or raises RegistryError."""
        entry = self.find(kind, name)
        return load_component(entry, _component(entry))

    def create(self, kind: Kind | str, name: str, /, *context: Any, **options: Any) -> Any:
        """Constructs a component; see `plugformer.create`.

        Raises:
            ConfigurationError: An option is unknown, missing, of the wrong type or out of range.
            RegistryError: As for `load`; the context is not what the constructor takes; or the constructor
                raises something that is not Plugformer's.
        """
        from plugformer.registry.options import checked_options  # pydantic: `list` must not wait for it

        entry = self.find(kind, name)
        component = load_component(entry, _component(entry))
        values = checked_options(component, options, label(entry))
        try:
            signature(component).bind(*context, **values)
        except TypeError as error:
            raise RegistryError(f"{label(entry)}: {error}") from None
        return guarded(entry, "constructing it", lambda: component(*context, **values))

    def known(self, kind: AnyKind) -> str:
        """Returns all usable names of a kind, by distribution: `gqa, mha (plugformer 0.1.0); ...`."""
        names: dict[tuple[bool, str], list[str]] = defaultdict(list)
        for entry in self._by_kind[kind]:
            if entry.state is not EntryState.QUARANTINED:
                names[entry.distribution != BUILT_IN, entry.owner].append(entry.name)
        return "; ".join(f"{', '.join(names[key])} ({key[1]})" for key in sorted(names)) or "none"


def _with_conflicts(entries: Iterable[Entry]) -> list[Entry]:
    """Returns entries by name without repeated targets, and marks names that several distributions offer.

    Plugformer's own commands always win.
    """
    unique: dict[tuple[object, ...], Entry] = {}
    offered: dict[tuple[str, str], list[str]] = defaultdict(list)
    for entry in entries:
        ready = entry.state is EntryState.READY
        defaults = json.dumps(entry.defaults, sort_keys=True, default=str)
        owner = "" if ready else entry.distribution
        key = entry.kind, entry.name, entry.target, entry.component, defaults, owner
        if unique.setdefault(key, entry) is entry and ready:
            offered[entry.kind, entry.name].append(entry.owner)
    for place, entry in unique.items():
        owners = offered[entry.kind, entry.name]
        wins = (entry.kind, entry.distribution) == (EntryKind.COMMAND, BUILT_IN)
        if entry.state is EntryState.READY and len(owners) > 1 and not wins:
            names = ", ".join(owners)
            cause = f"{names} offer the same name; write {entry.distribution}:{entry.name}"
            unique[place] = replace(entry, state=EntryState.CONFLICT, cause=cause)
    return sorted(unique.values(), key=lambda entry: (entry.name, entry.distribution))


def _is_by(entry: Entry, distribution: str) -> bool:
    return not distribution or normalized(entry.distribution) == normalized(distribution)


def _component(entry: Entry) -> Kind:
    if not isinstance(entry.kind, Kind):
        raise RegistryError(f"{label(entry)} is no component\nkinds of components: {', '.join(Kind)}")
    return entry.kind


def _kind(kind: AnyKind | str) -> AnyKind:
    kinds: list[AnyKind] = [*Kind, *EntryKind]
    if kind not in kinds:
        raise RegistryError(f"unknown kind {str(kind)!r}{nearest(kind, Kind)}\nknown: {', '.join(Kind)}")
    return next(known for known in kinds if known == kind)


@lru_cache(maxsize=1)
def _scanned(path: tuple[str, ...]) -> Registry:  # noqa: ARG001 (the result depends on it)
    return Registry(discover_installed())


def _installed() -> Registry:
    """Returns what is installed; a process reads it once for each `sys.path`."""
    return _scanned(tuple(sys.path))._with_manifests(())


def create(kind: Kind | str, name: str, /, *context: Any, **options: Any) -> Any:
    """Constructs an installed component, for use in any PyTorch program.

    Example:
        `create("attention", "gqa", ModelContext(width=128, heads=4, ffn_width=512), kv_heads=2)`

    Args:
        kind: Its kind, such as "attention".
        name: Its name, or `distribution:name`.
        *context: What the kind's constructors take first, such as a ModelContext.
        **options: The component's own options.

    Raises:
        ConfigurationError: An option is unknown, missing, of the wrong type or out of range.
        RegistryError: The component is unknown or ambiguous, or its import or constructor fails.
    """
    return _installed().create(kind, name, *context, **options)


def components(kind: Kind | str) -> list[Entry]:
    """Returns the installed components of a kind by name, each with its distribution, state and summary.

    Nothing is imported.
    """
    return _installed().entries(kind)
