"""The registry: what is installed, found without importing it, and loaded when it is used."""

from plugformer.kinds import Kind
from plugformer.registry.catalog import Registry
from plugformer.registry.discovery import Owner, Plugin
from plugformer.registry.entry import Entry, Other, State
from plugformer.registry.manifest import Manifest, parse

__all__ = ["Entry", "Kind", "Manifest", "Other", "Owner", "Plugin", "Registry", "State", "parse"]
