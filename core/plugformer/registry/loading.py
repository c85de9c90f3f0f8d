"""Importing what an entry names; whatever goes wrong becomes an error that names its owner."""

import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, get_origin

from plugformer.errors import PlugformerError, RegistryError, described, nearest, out_of_memory
from plugformer.kinds import INTERFACES, Kind
from plugformer.registry.discovery import import_folder
from plugformer.registry.manifest import Entry

LOADED: dict[str, Entry] = {}
"""The entries of components by `class_name`, and of commands and modules with hooks by their targets."""


def load_component(entry: Entry, kind: Kind) -> type:
    """Imports a component's class and checks that it is what its manifest says.

    Raises:
        RegistryError: Importing fails; the module has no such class; the class does not, or only partly,
            implement the kind's interface.
    """
    interface = interface_of(kind)
    loaded = load_attribute(entry) if entry.component is None else entry.component
    if not (isinstance(loaded, type) and issubclass(loaded, interface)):
        raise RegistryError(
            f"{label(entry)}: {entry.target} is not a {interface.__name__}\n"
            f"derive it from {interface.__module__}.{interface.__name__}, or correct the manifest"
        )
    if missing := [*_unset(loaded, interface), *sorted(getattr(loaded, "__abstractmethods__", ()))]:
        raise RegistryError(
            f"{label(entry)}: {entry.target} does not implement {', '.join(missing)}\n"
            f"the interface is {interface.__module__}.{interface.__name__}"
        )
    LOADED[class_name(loaded)] = replace(entry, component=None)  # which would keep the class alive
    return loaded


def class_name(component: type) -> str:
    """Returns the name of a class as manifests write it: `module:Class`."""
    return f"{component.__module__}:{component.__qualname__}"


def interface_of(kind: Kind) -> type:
    """Returns the interface that the components of a kind implement."""
    module, _, name = INTERFACES[kind].partition(":")
    interface: type = getattr(import_module(module), name)
    return interface


def _unset(loaded: type, interface: type) -> list[str]:
    """Returns the class attributes that an interface declares and a class does not set."""
    attributes = {name for base in loaded.__mro__ for name in vars(base)}
    declared: dict[str, object] = inspect.get_annotations(interface)
    return [
        name for name, kind in declared.items() if get_origin(kind) is ClassVar and name not in attributes
    ]


def load_attribute(entry: Entry) -> Any:
    """Imports the class or function that an entry names.

    Raises:
        RegistryError: Importing fails in any way, or the module has no such name.
    """
    module, (module_name, _, name) = load_module(entry), entry.target.partition(":")
    try:
        return getattr(module, name)
    except AttributeError as error:
        public = [known for known in vars(module) if not known.startswith("_")]
        raise RegistryError(
            f"{label(entry)}: module {module_name} has no {name!r}{nearest(name, public)}\n"
            "correct the manifest"
        ) from error


def load_module(entry: Entry) -> ModuleType:
    """Imports the module that an entry names.

    Raises:
        RegistryError: Importing fails in any way, even by leaving the interpreter.
    """
    name = entry.target.partition(":")[0]
    try:
        return import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise _blamed(entry, f"importing {name}", error) from error


def guarded(entry: Entry, doing: str, action: Callable[[], Any]) -> Any:
    """Runs code that an entry names.

    Args:
        entry: Its owner, whom messages name.
        doing: What the code does.
        action: The code.

    Raises:
        PlugformerError: The code raised one: it passes through.
        RegistryError: The code raised anything else, SystemExit included; only Ctrl-C passes, and errors
            about memory.
    """
    try:
        return action()
    except (KeyboardInterrupt, PlugformerError):
        raise
    except BaseException as error:
        if out_of_memory(error):
            raise
        raise _blamed(entry, doing, error) from error


def _blamed(entry: Entry, doing: str, error: BaseException) -> RegistryError:
    """Returns an error that names the owner of failing code, with advice."""
    advice = "update, repair or uninstall that distribution; everything else works without it"
    if entry.component is not None:
        advice = "correct the class"
    elif entry.file:
        file, module = Path(entry.file), re.split("[.:]", entry.target)[0]
        advice = (
            f"correct it, or {file}, which names it; "
            f"Python looks for {module!r} in what is installed and then in {import_folder(file, module)}"
        )
    return RegistryError(f"{label(entry)}: {doing} failed: {described(error)}\n{advice}")


def label(entry: Entry) -> str:
    """Returns an entry's name for messages: `attention 'gqa' (plugformer 0.1.0)`."""
    return f"{entry.kind} {entry.name!r} ({entry.owner})"
