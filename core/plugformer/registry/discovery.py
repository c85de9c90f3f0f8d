"""Finding manifests: from installed distributions, from Plugformer itself, from a local file.

Nothing that is found is imported: packages are located by their import specs, manifests are read as files (or
through the loader, for a package in a zip file).
"""

import importlib.util
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, distributions, entry_points
from pathlib import Path

import plugformer
from plugformer.errors import RegistryError
from plugformer.registry.manifest import Entry, EntryKind, Manifest, Owner, State, parse

GROUP = "plugformer"
MANIFEST = "registry.yaml"
LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Plugin:
    """A manifest that was found.

    Attributes:
        owner: The distribution that it belongs to.
        manifest: What it says; empty where it could not be read.
        cause: Why the plugin is quarantined; empty if it is sound.
        file: Of a local manifest, its path; else empty.
    """

    owner: Owner
    manifest: Manifest
    cause: str = ""
    file: str = ""

    @property
    def entries(self) -> list[Entry]:
        """Everything that it offers, and itself where it is quarantined; names are not yet compared."""
        found = [self._owned(entry) for entry in self.manifest.entries]
        return [*found, self.entry] if self.cause else found

    @property
    def entry(self) -> Entry:
        """The plugin itself; its summary counts what it offers."""
        words: dict[str, str] = {
            EntryKind.TASK: "task",
            EntryKind.COMMAND: "command",
            EntryKind.HOOKS: "hook module",
        }
        counts = Counter(words.get(entry.kind, "component") for entry in self.manifest.entries)
        summary = ", ".join(f"{count} {word}{'s' * (count > 1)}" for word, count in counts.items())
        return self._owned(Entry(EntryKind.PLUGIN, self.owner.distribution, "", summary))

    def _owned(self, entry: Entry) -> Entry:
        """Returns an entry with what all entries of a plugin have in common."""
        return replace(
            entry,
            distribution=self.owner.distribution,
            version=self.owner.version,
            state=State.QUARANTINED if self.cause else State.READY,
            cause=self.cause,
            file=self.file,
        )


BUILT_IN = Owner("plugformer", plugformer.__version__)


def discover_installed() -> list[Plugin]:
    """Returns Plugformer's own manifest and those of all installed plugins, sorted by distribution.

    `PLUGFORMER_PLUGINS`, distribution names separated by commas, restricts which plugins are read.
    """
    wanted = os.environ.get("PLUGFORMER_PLUGINS")
    names = None if wanted is None else {normalized(name) for name in wanted.split(",")}
    plugins: dict[tuple[str, str], Plugin] = {}
    for distribution, package in _entry_points():
        owner, cause = _owner(distribution)
        if normalized(owner.distribution) == BUILT_IN.distribution:
            continue
        if names is None or normalized(owner.distribution) in names:
            plugins.setdefault((owner.distribution, package), _installed(owner, package, cause))
    return [discover_built_in(), *(plugins[key] for key in sorted(plugins))]


def discover_local(file: Path) -> Plugin:
    """Returns a local manifest; its folder joins the import path, behind everything installed.

    Of a manifest inside of a package whose modules it names by the package's name, as in a distribution that
    is not installed, it is the folder that the package lies in.

    Raises:
        RegistryError: The file cannot be read, or Python finds a module of its folder elsewhere first.
    """
    file = absolute(file)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise _unreadable(file, error.strerror) from error
    plugin = replace(_plugin(Owner(LOCAL), (str(file), content)), file=str(file))
    names = sorted({re.split("[.:]", entry.target)[0] for entry in plugin.manifest.entries})
    folders = sorted({str(import_folder(file, name)) for name in names} or {str(file.parent)})
    if new := [folder for folder in folders if folder not in sys.path]:
        sys.path += new
        importlib.invalidate_caches()
    _refuse_shadowed(file, names)
    return plugin


def import_folder(file: Path, name: str) -> Path:
    """Returns the import path for a top-level module or package that a local manifest names."""
    if name == file.parent.name and not _is_beside(file, name):
        return file.parent.parent
    return file.parent


def _is_beside(file: Path, name: str) -> bool:
    return (file.parent / name).is_dir() or (file.parent / f"{name}.py").is_file()


def _refuse_shadowed(file: Path, names: Iterable[str]) -> None:
    """Refuses a local module of whose name Python has another one: its classes would be used in silence."""
    for name in names:
        folder = import_folder(file, name)
        if folder == file.parent and not _is_beside(file, name):
            continue
        spec = _spec(name)
        places = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or ())]
        found = [Path(place).resolve() for place in places if place is not None]
        if found and all(folder not in place.parents for place in found):
            raise RegistryError(
                f"the local manifest {str(file)!r} names the module {name!r} in {str(folder)!r}, but Python "
                f"finds {str(found[0])!r} first\n"
                "rename the module, or uninstall the other: of one name, a process can import only one"
            )


def absolute(file: Path) -> Path:
    """Returns the place of a local manifest without `~` and symbolic links.

    Raises:
        RegistryError: There is no such user, or links lead round in a circle.
    """
    try:
        return file.expanduser().resolve()
    except (OSError, RuntimeError) as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, reason: object) -> RegistryError:
    return RegistryError(
        f"the local manifest {str(file)!r} cannot be read: {reason}\n"
        "give an existing file to --registry, PLUGFORMER_REGISTRY or a task's registry:"
    )


def locate(package: str) -> ModuleSpec:
    """Returns the import spec of a top-level package without importing it.

    Raises:
        RegistryError: There is no such package, or what there is has no folder.
    """
    spec = _spec(package)
    if spec is None:
        raise RegistryError(f"package {package!r} is not installed")
    if spec.submodule_search_locations is None:
        raise RegistryError(f"{package!r} is a module; a plugin is a package with a {MANIFEST} in it")
    return spec


def _spec(module: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError) as error:
        raise RegistryError(f"package {module!r} cannot be located: {error}") from error


@cache
def normalized(distribution: str) -> str:
    """Returns the name as package indexes compare it (PEP 503)."""
    return re.sub("[-_.]+", "-", distribution).lower()


def discover_built_in() -> Plugin:
    """Returns Plugformer's own manifest, which by definition works with this version of it."""
    file, content = _built_in_manifest()
    manifest = parse(content, file)
    return Plugin(BUILT_IN, manifest, "\n".join(manifest.problems))


def _built_in_manifest() -> tuple[str, bytes]:
    """Reads the manifest beside the package (installed) or at the repository's root (checked out)."""
    package = Path(plugformer.__file__).resolve().parent
    packaged = package / MANIFEST
    file = packaged if packaged.is_file() else package.parents[1] / MANIFEST
    return str(file), file.read_bytes()


def _entry_points() -> Iterable[tuple[Distribution | None, str]]:
    """Returns the distribution and the package of every entry point of the group.

    A distribution whose entry points cannot be read has a package without a name.
    """
    try:
        return [(each.dist, each.value) for each in entry_points(group=GROUP)]
    except Exception:  # of one distribution, where all are lost: each has to be asked alone
        return [pair for each in distributions() for pair in _entry_points_of(each)]


def _entry_points_of(distribution: Distribution) -> Iterable[tuple[Distribution, str]]:
    try:
        return [(distribution, each.value) for each in distribution.entry_points.select(group=GROUP)]
    except Exception:  # text that is not UTF-8, a file without the right to read it, and more
        return [(distribution, "")]


def _installed(owner: Owner, package: str, cause: str) -> Plugin:
    try:
        return Plugin(owner, Manifest(), cause) if cause else _plugin(owner, _read(package))
    except RegistryError as error:
        return Plugin(owner, Manifest(), str(error))
    except Exception as error:  # whatever is wrong with one plugin, the others work
        return Plugin(owner, Manifest(), f"{package}: {type(error).__name__}: {error}")


def _owner(distribution: Distribution | None) -> tuple[Owner, str]:
    """Names a distribution, and says why its metadata cannot be read; damaged, they still give a name."""
    try:
        metadata = None if distribution is None else distribution.metadata
    except Exception as error:
        # As installers name the folder: https://packaging.python.org/specifications/recording-installed-packages
        folder = Path(str(getattr(distribution, "_path", ""))).stem
        name, _, version = folder.partition("-")
        return Owner(name or "unknown", version), f"its METADATA cannot be read: {error}"
    if metadata is None:
        return Owner("unknown"), ""
    names, versions = metadata.get_all("Name"), metadata.get_all("Version")
    return Owner(names[0] if names else "unknown", versions[0] if versions else ""), ""


def _read(package: str) -> tuple[str, bytes]:
    if not package:
        raise RegistryError("its entry_points.txt cannot be read")
    if not package.isidentifier():
        raise RegistryError(f"entry point {package!r} is not the name of a top-level package")
    spec = locate(package)
    for folder in spec.submodule_search_locations or ():
        file = os.path.join(folder, MANIFEST)  # noqa: PTH118 (a zip importer wants its own string form)
        in_zip = None if Path(folder).is_dir() else getattr(spec.loader, "get_data", None)
        with suppress(OSError):
            return file, in_zip(file) if in_zip else Path(file).read_bytes()
    raise RegistryError(f"package {package!r} has no {MANIFEST}; a wheel must include it beside __init__.py")


def _plugin(owner: Owner, found: tuple[str, bytes]) -> Plugin:
    file, content = found
    manifest = parse(content, file)
    cause = _unfit(manifest.requires) or "\n".join(manifest.problems)
    return Plugin(owner, manifest, cause)


@cache
def _unfit(requires: str) -> str:
    """Returns the reason why this version does not satisfy a manifest, or an empty string."""
    if not requires:
        return ""
    from packaging.specifiers import SpecifierSet  # a tenth of the time of `list`

    try:
        fits = SpecifierSet(requires).contains(plugformer.__version__, prereleases=True)
    except ValueError:  # InvalidSpecifier is one, and a number of 5,000 digits another
        return f"plugformer: {requires[:60]!r} is not a version specifier such as '>=0.1'"
    return "" if fits else f"needs plugformer {requires}; installed is {plugformer.__version__}"
