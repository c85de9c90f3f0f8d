"""The registry: what is installed, found without importing it, and loaded when it is used."""

from plugformer.registry.catalog import Registry
from plugformer.registry.discovery import interface_of
from plugformer.registry.manifest import Entry, EntryKind, EntryState, Kind, Plugin, parse

__all__ = ["Entry", "EntryKind", "EntryState", "Kind", "Plugin", "Registry", "interface_of", "parse"]
