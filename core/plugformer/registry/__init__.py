"""The registry: what is installed, found without importing it, and loaded when it is used."""

from typing import TYPE_CHECKING

from plugformer.lazy import lazily
from plugformer.registry.catalog import Registry
from plugformer.registry.discovery import Plugin, interface_of
from plugformer.registry.manifest import Entry, EntryKind, EntryState, Kind, Manifest, Owner, parse

if TYPE_CHECKING:  # what needs pydantic, or parses code: `list` and `--help` do without
    from plugformer.registry.options import checked_options, options_model
    from plugformer.registry.source import source_hash

__all__ = [
    "Entry",
    "EntryKind",
    "EntryState",
    "Kind",
    "Manifest",
    "Owner",
    "Plugin",
    "Registry",
    "checked_options",
    "interface_of",
    "options_model",
    "parse",
    "source_hash",
]

if not TYPE_CHECKING:  # a type checker then still sees a misspelt name
    __getattr__ = lazily(__name__)
