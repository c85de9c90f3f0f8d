"""Finding manifests and importing what they name.

Finding them imports nothing: packages are located by their import specs, manifests are read as files.
Whatever goes wrong during an import becomes an error that names the owner.
"""

import importlib
import inspect
import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache, wraps
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, cast, get_origin

import plugformer
from plugformer.errors import PlugformerError, RegistryError, described, nearest, out_of_memory
from plugformer.registry.manifest import CONTRACTS, INTERFACES, Entry, Kind, Plugin, parse
from plugformer.registry.source import packaged_file

MANIFEST = "registry.yaml"
INDEX = "plugins.json"
LOCAL = "local"
BUILT_IN = "plugformer"
"""The distribution of Plugformer itself."""


def discover_installed() -> list[Plugin]:
    """Returns Plugformer's own manifest and those of all installed plugins, sorted by distribution.

    `PLUGFORMER_PLUGINS`, distribution names separated by commas, restricts which plugins are read.
    """
    wanted = os.environ.get("PLUGFORMER_PLUGINS")
    names = None if wanted is None else {normalized(name.strip()) for name in wanted.split(",")}
    plugins = []
    for point in entry_points(group=BUILT_IN):
        name = normalized(point.dist.name) if point.dist else BUILT_IN
        if point.dist and name != BUILT_IN and (names is None or name in names):
            plugins.append(_installed(point.dist.name, point.dist.version, point.value))
    return [discover_built_in(), *sorted(plugins, key=lambda plugin: plugin.distribution)]


def discover_local(file: Path) -> Plugin:
    """Returns a local manifest, and appends its folder to the import path.

    If the manifest lies in a package whose modules it names, the folder around the package is appended.
    """
    file = file.expanduser().resolve()
    try:
        content = file.read_bytes()
    except OSError as error:
        raise RegistryError(
            f"the local manifest {str(file)!r} cannot be read: {error.strerror}\ngive an existing file"
        ) from error
    plugin = replace(_plugin(file, content, LOCAL), distribution=LOCAL, file=str(file))
    folder = file.parent
    inside = any(re.split("[.:]", entry.target)[0] == folder.name for entry in plugin.entries)
    if inside and not ((folder / folder.name).is_dir() or (folder / f"{folder.name}.py").is_file()):
        folder = folder.parent
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    importlib.invalidate_caches()
    return plugin


@cache
def normalized(distribution: str) -> str:
    """Returns the name as package indexes compare it (PEP 503)."""
    return re.sub("[-_.]+", "-", distribution).lower()


def discover_built_in() -> Plugin:
    """Returns Plugformer's own manifest."""
    file = _shipped(MANIFEST, ".")
    plugin = parse(file.read_bytes(), str(file))
    return replace(plugin, distribution=BUILT_IN, version=plugformer.__version__)


def read_index() -> list[dict[str, Any]]:
    """Returns the distributions in the index of plugins, `docs/plugins.json`."""
    plugins: list[dict[str, Any]] = json.loads(_shipped(INDEX, "docs").read_bytes())["plugins"]
    return plugins


def _shipped(name: str, folder: str) -> Path:
    """Returns a file that a wheel has in the package, and a checkout in a folder."""
    package = Path(plugformer.__file__).resolve().parent
    return packaged if (packaged := package / name).is_file() else package.parents[1] / folder / name


def _installed(distribution: str, version: str, package: str) -> Plugin:
    try:
        if (file := packaged_file(f"{package}:{MANIFEST}")) is None:
            message = f"package {package!r} has no {MANIFEST}; a wheel must include it next to __init__.py"
            raise RegistryError(message)
        plugin = _plugin(file, file.read_bytes(), distribution)
    except Exception as error:  # the other plugins must work
        plugin = Plugin(problems=(str(error),))
    return replace(plugin, distribution=distribution, version=version)


def _plugin(file: Path, content: bytes, distribution: str) -> Plugin:
    """Returns a manifest; what is made for another version of Plugformer or of a contract is quarantined."""
    plugin, version = parse(content, str(file)), plugformer.__version__
    entries = (replace(entry, cause=_outdated(entry, distribution)) for entry in plugin.entries)
    plugin = replace(plugin, entries=tuple(entries))
    if not plugin.requires:
        return plugin
    from packaging.specifiers import SpecifierSet  # takes a tenth of the time of `list`

    problem = f"needs plugformer {plugin.requires}; installed is {version}"
    try:
        fits = SpecifierSet(plugin.requires).contains(version, prereleases=True)
    except ValueError as error:  # such as InvalidSpecifier
        fits, problem = False, f"plugformer: {error}"
    return plugin if fits else replace(plugin, problems=(problem,))


def _outdated(entry: Entry, distribution: str) -> str:
    """Returns the reason why a component's version of the contract is not supported; empty if it is."""
    contract, version = CONTRACTS.get(entry.kind), entry.contract
    if contract is None or len(contract.dropped) < version <= contract.version:
        return ""
    if version > contract.version:
        ours, theirs = "a newer `plugformer`", f"an older `{distribution}`"
    else:
        ours, theirs = f"`plugformer<{contract.dropped[version - 1]}`", f"a newer `{distribution}`"
    if distribution == LOCAL:
        theirs = f"write `contracts: {{{entry.kind}: {contract.version}}}` after adapting it"
    return (
        f"it is written for version {version} of the contract of {entry.kind}, "
        f"plugformer {plugformer.__version__} supports {contract.supported}\ninstall {ours}, or {theirs}"
    )


LOADED: dict[str, Entry] = {}
"""The entries of components by `class_name` and name, and of commands and callbacks by their targets."""


def load_component(entry: Entry, kind: Kind) -> type:
    """Imports a component's class and checks that it implements the kind's interface."""
    interface = interface_of(kind)
    loaded = load_attribute(entry) if entry.component is None else entry.component
    if not (isinstance(loaded, type) and issubclass(loaded, interface)):
        raise RegistryError(
            f"{label(entry)}: {entry.target} is not a {interface.__name__}\n"
            f"derive it from {interface.__module__}.{interface.__name__}, or correct the manifest"
        )
    known = {name for base in loaded.__mro__ for name in vars(base)}
    declared: dict[str, object] = inspect.get_annotations(interface)
    missing = [name for name, kind in declared.items() if get_origin(kind) is ClassVar and name not in known]
    if missing := [*missing, *sorted(getattr(loaded, "__abstractmethods__", ()))]:
        raise RegistryError(
            f"{label(entry)}: {entry.target} does not implement {', '.join(missing)}\n"
            f"the interface is {interface.__module__}.{interface.__name__}"
        )
    LOADED[f"{class_name(loaded)} {entry.name}"] = replace(entry, component=None)  # which it would keep alive
    hashable: Any = loaded  # mypy takes classes for unhashable
    return _with_defaults(hashable, label(entry), json.dumps(entry.defaults)) if entry.defaults else loaded


@cache
def _with_defaults(component: Any, what: str, defaults: str) -> type:
    """Returns a class with other defaults of its options, given as JSON."""
    from plugformer.registry.options import checked_options  # pydantic: `list` must not wait for it

    constructor: Any = inspect.getattr_static(component, "__init__")
    values = checked_options(component, json.loads(defaults), what)

    @wraps(constructor)
    def construct(self: object, *context: Any, **given: Any) -> None:
        constructor(self, *context, **values | given)

    signature = inspect.signature(constructor)
    parameters = [
        each.replace(default=values.get(name, each.default)) for name, each in signature.parameters.items()
    ]
    construct.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    names = {"__module__": component.__module__, "__qualname__": component.__qualname__}
    derived: type = type(component)(component.__name__, (component,), {"__init__": construct, **names})
    return derived


def class_name(component: type) -> str:
    """Returns the name of a class as manifests write it: `module:Class`."""
    return f"{component.__module__}:{component.__qualname__}"


def interface_of(kind: Kind) -> type:
    """Returns the interface that the components of a kind implement."""
    return cast("type", getattr(import_module("plugformer.interfaces"), INTERFACES[kind]))


def load_attribute(entry: Entry) -> Any:
    """Imports the class or function that an entry names."""
    module, name = load_module(entry), entry.target.partition(":")[2]
    if not hasattr(module, name):
        file = getattr(module, "__file__", None)  # it may be another one than the author means
        message = f"module {module.__name__} ({file}) has no {name!r}{nearest(name, vars(module))}"
        raise RegistryError(f"{label(entry)}: {message}\ncorrect the manifest")
    return getattr(module, name)


def load_module(entry: Entry) -> ModuleType:
    """Imports the module that an entry names; an error in it, even an exit, becomes a RegistryError."""
    name = entry.target.partition(":")[0]
    module: ModuleType = guarded(
        entry, f"importing {name}", lambda: import_module(name), passed=KeyboardInterrupt
    )
    return module


def guarded(
    entry: Entry,
    doing: str,
    action: Callable[[], Any],
    passed: type[BaseException] = PlugformerError,
) -> Any:
    """Runs code that an entry names; `doing` says in messages what the code does.

    Raises:
        PlugformerError: The code raised one, and such errors are `passed` on.
        RegistryError: The code raised anything else, SystemExit included, except Ctrl-C and errors about
            memory; the message names the owner.
    """
    try:
        return action()
    except (KeyboardInterrupt, passed):
        raise
    except BaseException as error:
        if out_of_memory(error):
            raise
        advice = "update, repair or uninstall that distribution; everything else works without it"
        if entry.component is not None or entry.file:
            advice = f"correct it, or {entry.file}, which names it" if entry.file else "correct the class"
        message = f"{label(entry)}: {doing} failed: {described(error)}\n{advice}"
        raise RegistryError(message) from error


def label(entry: Entry) -> str:
    """Returns an entry's name for messages: `attention 'gqa' (plugformer 0.1.0)`."""
    return f"{entry.kind} {entry.name!r} ({entry.owner})"
