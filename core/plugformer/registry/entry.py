"""What the registry shows about one thing that it knows."""

from dataclasses import dataclass, replace
from enum import StrEnum

from plugformer.kinds import Kind
from plugformer.registry.discovery import Owner, Plugin


class State(StrEnum):
    """Whether something can be used.

    BROKEN is what only trying shows: manifests look sound, but loading fails.
    """

    READY = "ready"
    CONFLICT = "in conflict"
    QUARANTINED = "quarantined"
    BROKEN = "broken"


class Other(StrEnum):
    """What a manifest offers besides components, and the plugin itself."""

    TASK = "task"
    COMMAND = "command"
    HOOKS = "hooks"
    PLUGIN = "plugin"


CORE_COMMANDS = ("evaluate", "info", "list", "predict", "schema", "train", "validate")
"""The commands that no manifest names."""


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
        file: Of what a local manifest offers, that manifest's path; else empty.
    """

    kind: Kind | Other
    name: str
    target: str
    summary: str
    source: str
    distribution: str
    version: str
    state: State = State.READY
    cause: str = ""
    expected_failures: tuple[tuple[str, str], ...] = ()
    file: str = ""

    @property
    def owner(self) -> Owner:
        """The distribution and version that offer it."""
        return Owner(self.distribution, self.version)


def entries_of(plugin: Plugin) -> list[Entry]:
    """Returns everything that a plugin offers, before names are compared across plugins."""
    owner, manifest = plugin.owner, plugin.manifest
    state = State.QUARANTINED if plugin.cause else State.READY
    rest = (owner.distribution, owner.version, state, plugin.cause)
    found = [
        *(
            Entry(item.kind, item.name, item.target, item.summary, item.source, *rest, item.expected_failures)
            for item in manifest.components
        ),
        *(Entry(Other.TASK, item.name, item.target, item.summary, "", *rest) for item in manifest.tasks),
        *(
            Entry(Other.COMMAND, item.name, item.target, item.summary, "", *rest)
            for item in manifest.commands
        ),
        *(Entry(Other.HOOKS, module, module, "", "", *rest) for module in manifest.hooks),
    ]
    found += [plugin_entry(plugin)] if plugin.cause else []
    return [replace(entry, file=plugin.file) for entry in found] if plugin.file else found


def plugin_entry(plugin: Plugin) -> Entry:
    """Returns the entry of a plugin itself; its summary counts what it offers."""
    owner, manifest = plugin.owner, plugin.manifest
    state = State.QUARANTINED if plugin.cause else State.READY
    kinds = ("component", "task", "command", "hook module")
    offers = (manifest.components, manifest.tasks, manifest.commands, manifest.hooks)
    counts = [
        f"{len(offer)} {kind}{'s' * (len(offer) > 1)}"
        for kind, offer in zip(kinds, offers, strict=True)
        if offer
    ]
    summary = ", ".join(counts)
    return Entry(
        Other.PLUGIN,
        owner.distribution,
        "",
        summary,
        "",
        owner.distribution,
        owner.version,
        state,
        plugin.cause,
    )
