"""The registry: what is installed, found without importing it, and loaded when it is used."""

from typing import TYPE_CHECKING

from plugformer.lazy import lazily
from plugformer.registry.catalog import Registry
from plugformer.registry.discovery import interface_of
from plugformer.registry.manifest import Entry, EntryKind, EntryState, Kind, Plugin, parse

if TYPE_CHECKING:  # they need pydantic, which takes long to import: not for `list` and `--help`
    from plugformer.registry.options import checked_options, options_model
    from plugformer.registry.source import source_hash

__all__ = [
    "Entry",
    "EntryKind",
    "EntryState",
    "Kind",
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
