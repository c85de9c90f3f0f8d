"""Hashes of the source code of components."""

import ast
import hashlib
import json
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from plugformer.registry.catalog import Registry
from plugformer.registry.discovery import BUILT_IN, interface_of
from plugformer.registry.manifest import Entry, Kind

BLOCKS = "plugformer_blocks"
"""The package with building blocks of components."""


def component_lock(kind: Kind, name: str, registry: Registry) -> dict[str, Any]:
    """Returns a component's distribution, its version, and a hash of its source.

    One that is not built in also has a hash of each of its `files`. A class of a session has its name and the
    version of Python, on which its hash depends.
    """
    entry = registry.find(kind, name)
    lock = {"distribution": entry.distribution, "version": entry.version, "source": source_hash(entry)}
    if entry.component is not None:  # bytecode can only be compared within one version of Python
        return {**lock, "class": entry.target, "python": ".".join(map(str, sys.version_info[:2]))}
    return lock if entry.distribution == BUILT_IN else {**lock, "files": _file_hashes(entry)}


def source_hash(entry: Entry) -> str:
    """Returns a SHA-256 of a component's own file, and of the modules of its distribution that it imports.

    Of a built-in component only the file counts; the version covers the others. A local component's modules
    are those in the folder of its manifest. Nothing is imported. A missing file has the hash of nothing.
    """
    if entry.component is not None:
        return class_hash(entry.component, interface_of(Kind(entry.kind)))
    hashes = _file_hashes(entry)
    text = json.dumps(hashes, sort_keys=True) if len(hashes) > 1 else ""
    return hashlib.sha256(text.encode()).hexdigest() if text else next(iter(hashes.values()), _NOTHING)


_NOTHING = hashlib.sha256().hexdigest()


def _file_hashes(entry: Entry) -> dict[str, str]:
    """Returns a SHA-256 of a component's own file and of what it imports, by path in folder or package."""
    module = entry.target.partition(":")[0]
    own = [file for place in _places(module) for file in (place, place / "__init__.py") if file.is_file()][:1]
    if entry.distribution == BUILT_IN or not (own or entry.file):
        files = {file.name: file for file in own}
    else:
        within = [Path(entry.file).parent] if entry.file else _places(module.partition(".")[0])
        roots = {root: None for place in within for root in (place, place.parent)}
        waiting = [*own, *(file for root in roots for file in _module_files(root, module))]
        files = {}
        while waiting:
            file = waiting.pop()
            place = next((place for place in within if file.is_relative_to(place)), None)
            name = file.name if place in (None, file) else file.relative_to(place or "").as_posix()
            if name not in files and (place or file in own):
                files[name] = file
                waiting += _imports(file, roots)
    return {name: hashlib.sha256(files[name].read_bytes()).hexdigest() for name in sorted(files)}


def _imports(file: Path, roots: Iterable[Path]) -> Iterator[Path]:
    """Yields the files below some folders that the import statements of a file may name."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the import itself warns
            nodes = list(ast.walk(ast.parse(file.read_bytes())))
    except (SyntaxError, ValueError):
        return
    for node in nodes:
        if isinstance(node, ast.Import):
            names, places = [alias.name for alias in node.names], [*roots]
        elif isinstance(node, ast.ImportFrom):
            names = [".".join(filter(None, (node.module, alias.name))) for alias in node.names]
            places = list(file.parents[node.level - 1 : node.level]) if node.level else [*roots]
        else:
            continue
        for place, name in product(places, names):
            yield from _module_files(place, name)


def _module_files(folder: Path, module: str) -> Iterator[Path]:
    """Yields the file of a module and those of the packages that it lies in."""
    for name in module.split("."):
        yield from (file for file in (folder / f"{name}.py", folder / name / "__init__.py") if file.is_file())
        folder /= name


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
