"""Telling observers: each on its own, so that one that raises is switched off and the run goes on."""

import os
import sys
import time
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import pluggy

from plugformer.errors import PlugformerError, RegistryError, described
from plugformer.hooks.specification import Hooks
from plugformer.registry import Entry, State
from plugformer.registry.loading import LOADED, label, load_module

HOOKS = [name for name in vars(Hooks) if not name.startswith("_")]
"""Names of all hooks, in the order of a run's life."""


class HookManager:
    """Calls hooks on the observers of a run.

    Args:
        observers: Objects or modules with hook implementations.
        warn: Receives one line about each observer that is switched off.
        trace: Print every call to standard error, as PLUGFORMER_TRACE=1 asks.
    """

    def __init__(
        self,
        observers: Iterable[object],
        warn: Callable[[str], None],
        *,
        trace: bool | None = None,
    ) -> None:
        self._warn = warn
        self._trace = os.environ.get("PLUGFORMER_TRACE") == "1" if trace is None else trace
        self._manager = pluggy.PluginManager("plugformer")
        self._manager.add_hookspecs(Hooks)
        for observer in observers:
            self._register(observer)

    def _register(self, observer: object) -> None:
        name = observer.__name__ if isinstance(observer, ModuleType) else type(observer).__qualname__
        if self._manager.has_plugin(name):
            name = f"{name} {id(observer):#x}"  # another one of the same class
        try:
            self._manager.register(observer, name=name)
            self._manager.check_pending()
        except pluggy.PluginValidationError as error:
            raise RegistryError(
                f"{name} implements a hook, or an argument of one, that does not exist: {error}. "
                f"Hooks: {', '.join(HOOKS)}"
            ) from error
        self._refuse_wrappers(observer, name)

    def _refuse_wrappers(self, observer: object, name: str) -> None:
        """Observers are told one by one: none can stand around the others, as pluggy would allow."""
        for caller in self._manager.get_hookcallers(observer) or ():
            own = (each for each in caller.get_hookimpls() if each.plugin is observer)
            if any(each.wrapper or each.hookwrapper for each in own):
                raise RegistryError(
                    f"{name} wraps the hook {caller.name}, expected a plain implementation; "
                    "take wrapper=True (or hookwrapper=True) out"
                )

    def call(self, hook: str, **arguments: Any) -> None:
        """Calls a hook on every observer, in the order of pluggy.

        Raises:
            Exception: Whatever an implementation marked `must_not_fail` raised.
        """
        for implementation in reversed(getattr(self._manager.hook, hook).get_hookimpls()):
            started = time.perf_counter()
            try:
                implementation.function(**{name: arguments[name] for name in implementation.argnames})
            except (Exception, SystemExit) as error:  # an observer is a stranger: the run goes on
                if getattr(implementation.function, "plugformer_must_not_fail", False):
                    raise
                self._manager.unregister(implementation.plugin)
                self._warn(
                    f"{implementation.plugin_name} is switched off: its {hook} raised {described(error)}"
                )
            if self._trace:
                milliseconds = (time.perf_counter() - started) * 1000
                print(f"{hook} -> {implementation.plugin_name}  {milliseconds:.2f} ms", file=sys.stderr)  # noqa: T201 (that is what tracing is)


def load_observers(entries: Iterable[Entry], warn: Callable[[str], None]) -> list[ModuleType]:
    """Imports the hook modules that plugins' manifests name; one that cannot be imported is left out.

    Args:
        entries: The modules; those of quarantined plugins are left out in silence.
        warn: Receives one line about each module that cannot be imported.
    """
    loaded = []
    for entry in entries:
        if entry.state is State.QUARANTINED:
            continue
        try:
            module = load_module(entry.target, label(entry))
        except PlugformerError as error:  # the run goes on without it
            warn(f"left out: {'; '.join(str(error).splitlines())}")
        else:
            LOADED[entry.target] = entry
            loaded.append(module)
    return loaded
