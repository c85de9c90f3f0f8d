"""Importing what an entry names, and turning whatever goes wrong into an error that names its owner."""

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from threading import Timer
from types import ModuleType
from typing import Any, ClassVar, get_origin

from plugformer.errors import PlugformerError, RegistryError, described, nearest, out_of_memory
from plugformer.kinds import INTERFACES, Kind
from plugformer.registry.discovery import import_folder
from plugformer.registry.manifest import Entry, Owner

LOADED: dict[type | str, Entry] = {}
"""The entries of classes of components; and, by their targets, of commands and modules with hooks."""

PATIENCE = 10.0
"""Seconds before an import that takes long is named, so that who waits knows for whom."""

_REPAIR = "update, repair or uninstall that distribution; everything else works without it"


def load_component(entry: Entry, kind: Kind) -> type:
    """Imports a component's class and checks that it is what its manifest says.

    Raises:
        RegistryError: Importing fails in any way, even by leaving the interpreter; the module has no such
            class; the class is not, or only partly, an implementation of the kind's interface.
    """
    interface = interface_of(kind)
    loaded = load_attribute(entry.target, label(entry), advice(entry))
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
    LOADED[loaded] = entry
    return loaded


def interface_of(kind: Kind) -> type:
    """Returns the interface that the components of a kind implement."""
    interface: type = load_attribute(INTERFACES[kind], f"the interface of {kind}")
    return interface


def _unset(loaded: type, interface: type) -> list[str]:
    """Returns the class attributes that an interface asks for and a class does not give."""
    given = {name for base in loaded.__mro__ for name in vars(base)}
    asked: dict[str, object] = inspect.get_annotations(interface)
    return [name for name, kind in asked.items() if get_origin(kind) is ClassVar and name not in given]


def load_attribute(target: str, what: str, advice: str = _REPAIR) -> Any:
    """Imports `module:name`.

    Args:
        target: The two.
        what: How messages begin.
        advice: How they end.

    Raises:
        RegistryError: Importing fails in any way, or the module has no such name.
    """
    module_name, _, name = target.partition(":")
    module = load_module(module_name, what, advice)
    absent = object()
    found = guarded(what, f"looking {name} up", lambda: getattr(module, name, absent))
    if found is absent:
        public = [known for known in vars(module) if not known.startswith("_")]
        raise RegistryError(
            f"{what}: module {module_name} has no {name!r}{nearest(name, public)}\ncorrect the manifest"
        )
    return found


def load_module(name: str, what: str, advice: str = _REPAIR) -> ModuleType:
    """Imports a module; if that takes long, a line on standard error says for whom one waits.

    Args:
        name: Its dotted name.
        what: How messages begin.
        advice: How they end.

    Raises:
        RegistryError: Importing fails in any way.
    """
    if isinstance(loaded := sys.modules.get(name), ModuleType):
        return loaded
    with _named_when_slow(name, what):
        try:
            module: ModuleType = guarded(what, f"importing {name}", lambda: import_module(name), advice)
        except RegistryError:
            raise
        except PlugformerError as error:  # such as of a column that cannot be
            raise RegistryError(f"{what}: importing {name} failed: {error}\n{advice}") from error
    return module


@contextmanager
def _named_when_slow(module: str, what: str) -> Iterator[None]:
    """Inside, a module is imported; one that is not done in time gets a line on standard error.

    Args:
        module: Its name.
        what: What needs it, with its distribution.
    """
    line = f"still importing {module} after {PATIENCE:g} s, for {what}"
    timer = Timer(PATIENCE, print, [line], {"file": sys.stderr, "flush": True})
    timer.daemon = True  # it keeps no process from ending
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # what comes next may fork, which a thread must not see


def guarded(what: str, doing: str, action: Callable[[], Any], advice: str = _REPAIR) -> Any:
    """Runs code of a plugin; a standard stream that it takes away is given back.

    Args:
        what: How messages begin.
        doing: What the code does.
        action: The code.
        advice: How messages end.

    Raises:
        PlugformerError: The code raised one: it passes through.
        RegistryError: The code raised anything else, SystemExit included; only Ctrl-C passes, and errors
            about memory.
    """
    streams = sys.stdout, sys.stderr
    try:
        return action()
    except (KeyboardInterrupt, PlugformerError):
        raise
    except BaseException as error:
        if out_of_memory(error):
            raise
        raise RegistryError(f"{what}: {doing} failed: {described(error)}\n{advice}") from error
    finally:
        if sys.stdout is None or sys.stderr is None:
            sys.stdout, sys.stderr = streams


def advice(entry: Entry) -> str:
    """Returns advice for an entry whose code fails: reinstall its distribution, or correct its file."""
    if not entry.file:
        return _REPAIR
    file, module = Path(entry.file), re.split("[.:]", entry.target)[0]
    return (
        f"correct it, or {entry.file}, which names it; "
        f"Python looks for {module!r} in what is installed and then in {import_folder(file, module)}"
    )


def label(entry: Entry) -> str:
    """Returns an entry's name for messages: `attention 'gqa' (plugformer 0.1.0)`."""
    return f"{entry.kind} {entry.name!r} ({Owner(entry.distribution, entry.version)})"
