"""Fingerprints of source code: what a component is made of, whatever its version number says."""

import ast
import hashlib
import re
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path

from plugformer.kinds import Kind
from plugformer.registry.catalog import Registry
from plugformer.registry.manifest import Entry, State

_BLOCKS = "plugformer_blocks"
"""What components are built of, whoever wrote them: part of what each of them is made of."""


def component_lock(kind: Kind, name: str, registry: Registry) -> dict[str, str]:
    """Returns a component's distribution, its version, and a hash of its source."""
    registry.load(kind, name)  # its modules can then be found without importing anything new
    return _lock(registry.find(kind, name))


def hook_locks(registry: Registry) -> dict[str, dict[str, str]]:
    """Returns the same as `component_lock` for each module of hooks that runs load."""
    usable = (entry for entry in registry.hooks() if entry.state is not State.QUARANTINED)
    return {f"{entry.kind}/{entry.target}": _lock(entry) for entry in usable}


def _lock(entry: Entry) -> dict[str, str]:
    source = source_hash(entry.target.partition(":")[0])
    return {"distribution": entry.distribution, "version": entry.version, "source": source}


def source_hash(module: str) -> str:
    """Returns a SHA-256 over a module and all it reaches in its top-level package and in `plugformer_blocks`.

    A single file that nobody has installed may have others beside it, in the same folder: they count, too.
    Static imports count, and nothing is imported. Of a module that is not there, it is the hash of nothing.

    Args:
        module: Its dotted name.
    """
    digest = hashlib.sha256()
    for name, source in sorted(_reached(module).items()):
        digest.update(f"{name}\0{len(source)}\0".encode() + source)
    return digest.hexdigest()


def _reached(module: str) -> dict[str, bytes]:
    """Returns the source of each module that `module` needs, itself included, by name."""
    sources: dict[str, bytes] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        spec = None if name in sources else _spec(name)
        if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
            continue
        sources[name] = _source(spec)
        waiting += _imports(sources[name], name, spec)
    return sources


def _spec(name: str) -> ModuleSpec | None:
    """Returns the location of a module without importing its packages; None for the name of an attribute."""
    package, *parts = name.split(".")
    try:
        spec = find_spec(package)
        for part in parts:
            if spec is None or spec.submodule_search_locations is None:
                return None
            # By its last part alone: of a dotted name it would look for the parent among what is imported.
            spec = PathFinder.find_spec(part, list(spec.submodule_search_locations))
    except (ImportError, ValueError):
        return None
    return spec


def _source(spec: ModuleSpec) -> bytes:
    """Returns a module's source, also from inside a zip; nothing if it is no text."""
    read = getattr(spec.loader, "get_source", None)  # that of zip files is no InspectLoader
    try:
        text = read(spec.name) if read else None
    except (ImportError, SyntaxError, ValueError):  # not readable, or not in the encoding that it declares
        text = None
    return (text or "").encode()


def _imports(source: bytes, name: str, spec: ModuleSpec) -> Iterator[str]:
    """Yields a module's imports from its own top-level package, beside it, and from `plugformer_blocks`."""
    packages = (name.partition(".")[0], _BLOCKS)
    folder = _own_folder(name, spec)
    wanted = rb"from[\s\\]*\.|" + "|".join(packages).encode()
    if folder is None and not re.search(wanted, source):  # parsing is slow
        return
    package = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
    for imported in _names(source, package):
        first = imported.partition(".")[0]
        if first in packages or (folder is not None and _lies_in(folder, first)):
            yield imported


def _own_folder(name: str, spec: ModuleSpec) -> Path | None:
    """Returns the folder of a module that is a single file, unless distributions are installed there."""
    if "." in name or spec.submodule_search_locations is not None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    return None if any(folder.glob("*.dist-info")) else folder


def _lies_in(folder: Path, name: str) -> bool:
    """Whether a top-level module or package is found in a folder."""
    spec = _spec(name)
    places = [] if spec is None else spec.submodule_search_locations or [spec.origin or ""]
    return any(Path(place).parent == folder for place in places)


def _names(source: bytes, package: str) -> Iterator[str]:
    """Yields the dotted names that source code imports, relative ones resolved against its package."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # it imports nothing as long as it cannot be read
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parent = package.rsplit(".", node.level - 1)[0] if node.level > 1 else package
            base = ".".join(part for part in (parent if node.level else "", node.module or "") if part)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
