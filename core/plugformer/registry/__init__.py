"""The registry: what is installed, found without importing it, and loaded when it is used."""

from plugformer.registry.catalog import Registry
from plugformer.registry.discovery import interface_of
from plugformer.registry.manifest import CONTRACTS, Entry, EntryKind, EntryState, Kind
from plugformer.registry.source import code_hash

__all__ = ["CONTRACTS", "Entry", "EntryKind", "EntryState", "Kind", "Registry", "code_hash", "interface_of"]
