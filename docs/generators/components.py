"""The built-in components: a short table for the README, and the reference with every option."""

import json
from itertools import groupby
from typing import Any

from generators.markdown import code, first_sentence, prose, table
from plugformer.registry import Entry, Kind, Registry, interface_of
from plugformer_cli.info import describe_options


def component_table(registry: Registry) -> str:
    """Returns one row for each kind, with the names of its built-in components."""
    rows = [
        (code(kind), ", ".join(code(entry.name) for entry in entries))
        for kind, entries in _by_kind(registry).items()
    ]
    return table(("kind", "built-in components"), rows)


def component_reference(registry: Registry) -> str:
    """Returns a section for each kind, and in it one for each component with its options."""
    return "\n\n".join(_kind(kind, entries, registry) for kind, entries in _by_kind(registry).items())


def _by_kind(registry: Registry) -> dict[str, list[Entry]]:
    built_in = [entry for entry in registry.entries() if entry.distribution == "plugformer"]
    return {kind: list(entries) for kind, entries in groupby(built_in, key=lambda entry: str(entry.kind))}


def _kind(kind: str, entries: list[Entry], registry: Registry) -> str:
    interface = interface_of(Kind(kind))
    parts = [f"## {kind}", first_sentence(interface.__doc__)]
    return "\n\n".join([*parts, *(_component(entry, registry) for entry in entries)])


def _component(entry: Entry, registry: Registry) -> str:
    component = registry.load(entry.kind, entry.name)
    options = describe_options(component)
    parts = [
        f"### {entry.kind}/{entry.name}",
        f"{entry.summary} ({_source(entry)}{code(entry.target)})",
        table(("option", "type", "default", "meaning"), map(_row, options)) if options else "No options.",
    ]
    return "\n\n".join(parts)


def _source(entry: Entry) -> str:
    return f"[source]({entry.source}), " if entry.source else ""


def _row(option: dict[str, Any]) -> tuple[str, str, str, str]:
    default = "required" if option["required"] else code(json.dumps(option["default"], ensure_ascii=False))
    meaning = " ".join(prose(option["description"]).split())
    return code(option["name"]), option["type"], default, meaning
