"""Hashes of the source code of components."""

import hashlib
import re
import sys
from collections.abc import Iterable
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from plugformer.registry.catalog import Registry
from plugformer.registry.discovery import interface_of
from plugformer.registry.manifest import Entry, Kind

BLOCKS = "plugformer_blocks"
"""The package with building blocks of components."""


def component_lock(kind: Kind, name: str, registry: Registry) -> dict[str, str]:
    """Returns a component's distribution, its version, and a hash of its source.

    A class of a session also has its name and the version of Python, on which its hash depends.
    """
    entry = registry.find(kind, name)
    lock = {"distribution": entry.distribution, "version": entry.version, "source": source_hash(entry)}
    if entry.component is not None:  # bytecode can only be compared within one version of Python
        lock |= {"class": entry.target, "python": ".".join(map(str, sys.version_info[:2]))}
    return lock


def source_hash(entry: Entry) -> str:
    """Returns a SHA-256 of a component's own file; of a local component, of the folder of its manifest.

    The version of the distribution covers the other modules that it uses. A folder counts with its Python
    files and those of the packages in it. Nothing is imported. A missing file has the hash of nothing.
    """
    if entry.component is not None:
        return class_hash(entry.component, interface_of(Kind(entry.kind)))
    if entry.file:
        return _hash([Path(entry.file).parent])
    places = _places(entry.target.partition(":")[0])
    files = [file for place in places for file in (place, place / "__init__.py") if file.is_file()]
    return hashlib.sha256(files[0].read_bytes() if files else b"").hexdigest()


def code_hash(entries: Iterable[Entry], *packages: str) -> str:
    """Returns a SHA-256 of all Python files in the packages of components, and in further packages.

    It decides whether a result is computed again, not whether a run may be resumed.
    """
    entries = list(entries)
    modules = (entry.target.partition(":")[0] for entry in entries if not entry.file)
    names = {parent for module in modules if (parent := module.rpartition(".")[0])}
    folders = [folder for name in sorted({*names, *packages}) for folder in _places(name)]
    return _hash([*folders, *sorted({Path(entry.file).parent for entry in entries if entry.file})])


def _places(module: str) -> list[Path]:
    """Returns the folders of a package, or the file of a module; nothing is imported."""
    places: list[str] | None = None
    for name in module.split("."):
        # By its last part alone: of a dotted name it would look for the parent among what is imported.
        spec = find_spec(name) if places is None else PathFinder.find_spec(name, places)
        if spec is None:
            return []
        places = list(spec.submodule_search_locations or [spec.origin or ""])
    return list(map(Path, places or []))


def _hash(folders: Iterable[Path]) -> str:
    """Returns a hash of the Python files of folders and of the packages in them."""
    digest = hashlib.sha256()
    folders = list(folders)
    while folders:
        for member in sorted(folders.pop(0).glob("*")):
            if member.suffix == ".py" and member.is_file():
                source = member.read_bytes()
                digest.update(f"{member.name}\0{len(source)}\0".encode() + source)
            elif (member / "__init__.py").is_file():
                folders.append(member)
    return digest.hexdigest()


def class_hash(component: type, interface: type) -> str:
    """Returns a SHA-256 of what a class consists of: its methods' bytecode, its attributes and annotations.

    Base classes count up to those that the interface has too. Functions and global variables that methods use
    are not covered.
    """
    bases = [base for base in component.__mro__ if not issubclass(interface, base)]
    return hashlib.sha256(repr([_members(base) for base in bases]).encode()).hexdigest()


_NOT_CONTENT = {"__abstractmethods__", "__dict__", "__doc__", "__module__", "__qualname__", "__weakref__"}
_NOT_CONTENT |= {"_abc_impl", "__firstlineno__", "__static_attributes__", "__annotate_func__"}


def _members(component: type) -> list[tuple[str, Any]]:
    members = sorted(vars(component).items())
    within = component.__qualname__
    return [(name, _content(member, within)) for name, member in members if name not in _NOT_CONTENT]


def _content(value: Any, within: str) -> Any:
    """Returns a part of a class of this qualified name in a form whose `repr` is the same everywhere."""

    def all_of(values: Iterable[Any]) -> list[Any]:
        return [_content(item, within) for item in values]

    if isinstance(value, type):
        inside = value.__qualname__.startswith(f"{within}.")
        return _members(value) if inside else f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, CodeType):
        return ["code", value.co_code, all_of(value.co_consts), value.co_names]
    if isinstance(value, FunctionType):
        wrapped = getattr(value, "__wrapped__", None)
        parts = (value.__code__, value.__defaults__, value.__kwdefaults__, value.__annotations__, wrapped)
        return all_of(parts)
    if isinstance(value, staticmethod | classmethod):
        return [type(value).__name__, _content(value.__func__, within)]
    if isinstance(value, property):
        return all_of([value.fget, value.fset, value.fdel])
    if isinstance(value, set | frozenset):
        return sorted(map(repr, all_of(value)))
    if isinstance(value, dict | tuple | list):
        return all_of(value.items() if isinstance(value, dict) else value)
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))
