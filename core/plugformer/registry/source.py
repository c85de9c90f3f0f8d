"""Hashes of source code: what a component is made of, besides the version of its distribution."""

import hashlib
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path

from plugformer.kinds import Kind
from plugformer.registry.catalog import Registry
from plugformer.registry.manifest import Entry

BLOCKS = "plugformer_blocks"
"""The package of what components are built of, whoever wrote them."""


def component_lock(kind: Kind, name: str, registry: Registry) -> dict[str, str]:
    """Returns a component's distribution, its version, and a hash of its source."""
    entry = registry.find(kind, name)
    return {"distribution": entry.distribution, "version": entry.version, "source": source_hash(entry)}


def source_hash(entry: Entry) -> str:
    """Returns a SHA-256 of a component's own file; of a local component, of the folder of its manifest.

    What else it uses of its distribution counts by the distribution's version. A folder is its Python files
    and those of the packages in it. Nothing is imported. A file that does not exist has the hash of nothing.

    Args:
        entry: The component.
    """
    if entry.file:
        return _hash(_python_files(Path(entry.file).parent))
    spec = _spec(entry.target.partition(":")[0])
    if spec is None or spec.origin is None:
        return _hash([])
    try:
        source: bytes = spec.loader.get_data(spec.origin)  # type: ignore[union-attr]  # also inside a zip
    except (OSError, AttributeError):  # it is no file, or has been removed
        source = b""
    return hashlib.sha256(source).hexdigest()


def code_hash(entries: Iterable[Entry], *packages: str) -> str:
    """Returns a SHA-256 of all Python files that components may use, in the packages that they lie in.

    It also changes with an edit that matters to none of them: it decides whether a result is computed again,
    not whether a run may be resumed.

    Args:
        entries: The components.
        packages: Further packages, imported already.
    """
    modules = (entry.target.partition(":")[0] for entry in entries if not entry.file)
    names = {parent for module in modules if (parent := module.rpartition(".")[0])}
    folders = [Path(place) for name in sorted({*names, *packages}) for place in _places(name)]
    local = sorted({Path(entry.file).parent for entry in entries if entry.file})
    return _hash([file for folder in (*folders, *local) for file in _python_files(folder)])


def _places(package: str) -> list[str]:
    """Returns the folders of a package."""
    spec = _spec(package)
    return list((spec and spec.submodule_search_locations) or [])


def _python_files(folder: Path) -> Iterator[Path]:
    """Yields the Python files of a folder and of the packages in it, not those of its other folders."""
    try:
        members = sorted(folder.iterdir())
    except OSError:  # in a zip
        return
    for member in members:
        if member.suffix == ".py" and member.is_file():
            yield member
        elif (member / "__init__.py").is_file():
            yield from _python_files(member)


def _hash(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        source = file.read_bytes()
        digest.update(f"{file.name}\0{len(source)}\0".encode("utf-8", "surrogateescape") + source)
    return digest.hexdigest()


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
