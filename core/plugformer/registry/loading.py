"""Importing what an entry names, and turning whatever goes wrong into an error that names its owner."""

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
from plugformer.registry.discovery import contains, import_folder
from plugformer.registry.manifest import Entry

LOADED: dict[str, Entry] = {}
"""The entries of components by `class_name`, and of commands and modules with hooks by their targets."""


def load_component(entry: Entry, kind: Kind) -> type:
    """Imports a component's class and checks that it is what its manifest says.

    Raises:
        RegistryError: Importing fails in any way, even by leaving the interpreter; the module has no such
            class; the class is not, or only partly, an implementation of the kind's interface.
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
    """Returns the class attributes that an interface asks for and a class does not give."""
    given = {name for base in loaded.__mro__ for name in vars(base)}
    asked: dict[str, object] = inspect.get_annotations(interface)
    return [name for name, kind in asked.items() if get_origin(kind) is ClassVar and name not in given]


def load_attribute(entry: Entry) -> Any:
    """Imports the class or function that an entry names.

    Raises:
        RegistryError: Importing fails in any way, or the module has no such name.
    """
    module, (module_name, _, name) = load_module(entry), entry.target.partition(":")
    absent = object()
    found = guarded(entry, f"looking {name} up", lambda: getattr(module, name, absent))
    if found is absent:
        public = [known for known in vars(module) if not known.startswith("_")]
        raise RegistryError(
            f"{label(entry)}: module {module_name} has no {name!r}{nearest(name, public)}\n"
            "correct the manifest"
        )
    return found


def load_module(entry: Entry) -> ModuleType:
    """Imports the module that an entry names.

    Raises:
        RegistryError: Importing fails in any way, or Python has another module of this name.
    """
    name = entry.target.partition(":")[0]
    try:
        module: ModuleType = guarded(entry, f"importing {name}", lambda: import_module(name))
    except RegistryError:
        raise
    except MemoryError as error:  # a smaller model would not help
        raise RegistryError(
            f"{label(entry)}: importing {name} failed: {described(error)}\n{_advice(entry)}"
        ) from error
    except PlugformerError as error:  # such as of a column that cannot be
        raise RegistryError(f"{label(entry)}: importing {name} failed: {error}\n{_advice(entry)}") from error
    if entry.file:
        _refuse_other(entry, module)
    return module


def _refuse_other(entry: Entry, module: ModuleType) -> None:
    """Refuses a module from elsewhere in place of a local one, such as that of a copied folder."""
    top = module.__name__.partition(".")[0]
    folder = import_folder(Path(entry.file), top)
    place = Path(module.__file__ or "").resolve()
    if contains(folder, top) and folder not in place.parents:
        raise RegistryError(
            f"{label(entry)}: its module {module.__name__!r} is in {str(folder)!r}, but Python has one from "
            f"{str(place)!r}\nrename the module: a process can import only one of a name"
        )


def guarded(entry: Entry, doing: str, action: Callable[[], Any]) -> Any:
    """Runs code of what an entry names.

    Args:
        entry: Whose code it is: messages begin with its name, and end with what to do about it.
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
        raise RegistryError(
            f"{label(entry)}: {doing} failed: {described(error)}\n{_advice(entry)}"
        ) from error


def _advice(entry: Entry) -> str:
    """Returns advice for an entry whose code fails: reinstall its distribution, or correct its file."""
    if entry.component is not None:
        return "correct the class"
    if not entry.file:
        return "update, repair or uninstall that distribution; everything else works without it"
    file, module = Path(entry.file), re.split("[.:]", entry.target)[0]
    return (
        f"correct it, or {entry.file}, which names it; "
        f"Python looks for {module!r} in what is installed and then in {import_folder(file, module)}"
    )


def label(entry: Entry) -> str:
    """Returns an entry's name for messages: `attention 'gqa' (plugformer 0.1.0)`."""
    return f"{entry.kind} {entry.name!r} ({entry.owner})"
