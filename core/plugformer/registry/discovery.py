"""Finding manifests: from installed distributions, from Plugformer itself, from a local file.

Nothing that is found is imported: packages are located by their import specs, manifests are read as files (or
through the loader, for a package in a zip file).
"""

import importlib.util
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, EntryPoint, entry_points
from pathlib import Path

import plugformer
from plugformer.errors import RegistryError
from plugformer.registry.manifest import Manifest, parse

GROUP = "plugformer"
MANIFEST = "registry.yaml"
LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Owner:
    """Who offers something: a distribution and its version; `local` has no version."""

    distribution: str
    version: str = ""

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}".rstrip()


@dataclass(frozen=True, slots=True)
class Plugin:
    """A manifest that was found.

    Attributes:
        owner: The distribution that it belongs to.
        manifest: What it says; empty where it could not be read.
        cause: Why the plugin is quarantined; empty if it is sound.
    """

    owner: Owner
    manifest: Manifest
    cause: str = ""


BUILT_IN = Owner("plugformer", plugformer.__version__)


def discover_installed() -> list[Plugin]:
    """Returns Plugformer's own manifest and those of all installed plugins, sorted by distribution.

    `PLUGFORMER_PLUGINS`, distribution names separated by commas, restricts which plugins are read.
    """
    wanted = os.environ.get("PLUGFORMER_PLUGINS")
    names = None if wanted is None else {normalized(name) for name in wanted.split(",")}
    plugins = {}
    for entry_point in entry_points(group=GROUP):
        owner = _owner(entry_point.dist)
        if normalized(owner.distribution) == BUILT_IN.distribution:
            continue
        if names is None or normalized(owner.distribution) in names:
            plugins[owner.distribution, entry_point.value] = _installed(owner, entry_point)
    return [_built_in(), *(plugins[key] for key in sorted(plugins))]


def discover_local(file: Path) -> Plugin:
    """Returns a local manifest; its folder joins the import path, behind everything installed.

    Raises:
        RegistryError: The file cannot be read.
    """
    file = file.expanduser().resolve()
    try:
        content = file.read_bytes()
    except OSError as error:
        raise RegistryError(
            f"the local manifest {str(file)!r} cannot be read: {error.strerror}\n"
            "give an existing file to --registry, PLUGFORMER_REGISTRY or a task's registry:"
        ) from error
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
        importlib.invalidate_caches()
    return _plugin(Owner(LOCAL), (str(file), content))


def locate(package: str) -> ModuleSpec:
    """Returns the import spec of a top-level package without importing it.

    Raises:
        RegistryError: There is no such package, or what there is has no folder.
    """
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError, AttributeError) as error:
        raise RegistryError(f"package {package!r} cannot be located: {error}") from error
    if spec is None:
        raise RegistryError(f"package {package!r} is not installed")
    if spec.submodule_search_locations is None:
        raise RegistryError(f"{package!r} is a module; a plugin is a package with a {MANIFEST} in it")
    return spec


@cache
def normalized(distribution: str) -> str:
    """Returns the name as package indexes compare it (PEP 503)."""
    return "-".join(
        part for part in distribution.lower().replace("_", "-").replace(".", "-").split("-") if part
    )


def _built_in() -> Plugin:
    """Plugformer's own manifest, which by definition works with this version of it."""
    file, content = _built_in_manifest()
    manifest = parse(content, file)
    return Plugin(BUILT_IN, manifest, "\n".join(manifest.problems))


def _built_in_manifest() -> tuple[str, bytes]:
    """Reads the manifest beside the package (installed) or at the repository's root (checked out)."""
    package = Path(plugformer.__file__).resolve().parent
    packaged = package / MANIFEST
    file = packaged if packaged.is_file() else package.parents[1] / MANIFEST
    return str(file), file.read_bytes()


def _installed(owner: Owner, entry_point: EntryPoint) -> Plugin:
    try:
        return _plugin(owner, _read(entry_point.value))
    except RegistryError as error:
        return Plugin(owner, Manifest(), str(error))


def _owner(distribution: Distribution | None) -> Owner:
    """Names a distribution; damaged metadata still gives something to show."""
    metadata = None if distribution is None else distribution.metadata
    if metadata is None:
        return Owner("unknown")
    names, versions = metadata.get_all("Name"), metadata.get_all("Version")
    return Owner(names[0] if names else "unknown", versions[0] if versions else "")


def _read(package: str) -> tuple[str, bytes]:
    if not package.isidentifier():
        raise RegistryError(f"entry point {package!r} is not the name of a top-level package")
    spec = locate(package)
    for file, content in _contents(spec):
        return file, content
    raise RegistryError(f"package {package!r} has no {MANIFEST}; a wheel must include it beside __init__.py")


def _contents(spec: ModuleSpec) -> Iterator[tuple[str, bytes]]:
    for folder in spec.submodule_search_locations or ():
        file = os.path.join(folder, MANIFEST)  # noqa: PTH118 (a zip importer wants its own string form)
        read = getattr(spec.loader, "get_data", None) or _read_bytes
        try:
            yield file, read(file)
        except OSError:
            continue


def _read_bytes(file: str) -> bytes:
    return Path(file).read_bytes()


def _plugin(owner: Owner, found: tuple[str, bytes]) -> Plugin:
    file, content = found
    manifest = parse(content, file)
    cause = _unfit(manifest.requires) or "\n".join(manifest.problems)
    return Plugin(owner, manifest, cause)


@cache
def _unfit(requires: str) -> str:
    """Says why this version of Plugformer does not satisfy a manifest, or returns an empty string."""
    if not requires:
        return ""
    from packaging.specifiers import SpecifierSet  # a tenth of the time of `list`

    try:
        fits = SpecifierSet(requires).contains(plugformer.__version__, prereleases=True)
    except ValueError:  # InvalidSpecifier is one, and a number of 5,000 digits another
        return f"plugformer: {requires[:60]!r} is not a version specifier such as '>=0.1'"
    return "" if fits else f"needs plugformer {requires}; installed is {plugformer.__version__}"
