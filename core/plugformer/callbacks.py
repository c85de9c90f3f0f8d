"""Calls hooks: a callback that raises is switched off; an error of one that a task names ends the run."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from types import ModuleType, SimpleNamespace
from typing import Any

import pluggy
import torch

from plugformer.configuration.task import Component
from plugformer.errors import PlugformerError, RegistryError, described
from plugformer.hooks import HOOKS, TRAINING_HOOKS, Hooks, TrainingHooks, hookimpl
from plugformer.interfaces import Callback
from plugformer.interfaces.batch import Batch
from plugformer.interfaces.model import Loss
from plugformer.registry import Entry, EntryState, Kind, Registry
from plugformer.registry.discovery import LOADED, load_module
from plugformer.reproducibility import stream_seed

_RESULTS = {"training_batch": Batch, "training_loss": Loss}


_core = hookimpl(trylast=True)
_DEFAULTS = SimpleNamespace(
    training_batch=_core(lambda batch: batch),
    training_loss=_core(lambda model, batch: model.forward(batch)),
    optimizer_step=_core(lambda optimizer: optimizer.step()),
)
"""The implementations of hooks for which no component does something else."""


class HookManager:
    """Calls hooks on callbacks: those that only watch a run, and the components that take part in it.

    Args:
        watching: Objects or modules with hook implementations; an object that occurs again is called once.
        warn: Receives one line about each callback that is switched off.
        components: The components that take part, by unique names.

    Raises:
        RegistryError: One of them implements a hook that does not exist, or that is not for it, or none, or
            has a method with the name of a hook that is not marked.
    """

    def __init__(
        self,
        watching: Iterable[object],
        warn: Callable[[str], None],
        components: Mapping[str, Callback] | None = None,
    ) -> None:
        self.components = dict(components or {})
        self._warn = warn
        self._manager = pluggy.PluginManager("plugformer")
        self._manager.add_hookspecs(Hooks)
        self._manager.add_hookspecs(TrainingHooks)
        self._manager.register(_DEFAULTS, "the core")
        for callback in {id(callback): callback for callback in watching}.values():
            name = getattr(callback, "__name__", type(callback).__qualname__)
            if self._manager.has_plugin(name):
                name = f"{name} {id(callback):#x}"  # another one of the same class
            self._register(callback, name, takes_part=False)
        for name, component in self.components.items():
            component.generator = torch.Generator()
            self._register(component, f"callback {name!r}", takes_part=True)

    def _register(self, callback: object, name: str, *, takes_part: bool) -> None:
        plugin = callback if takes_part else self._watching(callback, name)
        try:
            self._manager.register(plugin, name=name)
            self._manager.check_pending()
        except pluggy.PluginValidationError as error:
            known = ", ".join([*HOOKS, *(TRAINING_HOOKS if takes_part else ())])
            raise RegistryError(
                f"{name} implements an unknown hook, or one with an unknown argument: {error}. Hooks: {known}"
            ) from error
        callers = self._manager.get_hookcallers(plugin) or []
        hooks = [*TRAINING_HOOKS, *HOOKS] if takes_part else [*HOOKS]
        _refuse_unmarked(callback, name, [caller.name for caller in callers], hooks)

    def _watching(self, callback: object, name: str) -> SimpleNamespace:
        """Returns the hooks of a callback that no task names: it only watches, until it raises an error."""
        plugin = SimpleNamespace()
        for hook in dir(callback):
            if (options := self._manager.parse_hookimpl_opts(callback, hook)) is None:
                continue
            if options["wrapper"] or options["hookwrapper"] or hook in TRAINING_HOOKS:
                raise RegistryError(
                    f"{name} changes what {hook} does, but only one that a task names may: derive it from "
                    "plugformer.interfaces.Callback and list it in training.callbacks, or remove wrapper=True"
                )
            setattr(plugin, hook, self._guarded(getattr(callback, hook), name, plugin))
        return plugin

    def _guarded(self, function: Callable[..., Any], name: str, plugin: object) -> Callable[..., Any]:
        """Returns the function of a hook; if it raises, its plugin is switched off."""

        @wraps(function)  # with pluggy's mark, and the arguments that it looks for
        def guarded(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except (Exception, SystemExit) as error:
                if getattr(function, "plugformer_must_not_fail", False):
                    raise
                self._manager.unregister(plugin)
                self._warn(f"{name} is switched off: its {function.__name__} raised {described(error)}")
                return None

        return guarded

    def call(self, hook: str, **arguments: Any) -> Any:
        """Calls a hook on all callbacks; returns what pluggy does.

        That is a list of all results but None, or the first result or None if the hook has `firstresult`.

        Raises:
            Exception: The exception of a component, or of an implementation marked `must_not_fail`.
        """
        return getattr(self._manager.hook, hook)(**arguments)

    def ask(self, hook: str, **arguments: Any) -> Any:
        """Returns pluggy's result of calling a hook on all components.

        Raises:
            RegistryError: A component returned a value of the wrong type.
        """
        result = self.call(hook, **arguments)
        expected = _RESULTS.get(hook, object)
        if not isinstance(result, expected):
            names, returned = " or ".join(self._implementers(hook)), type(result).__name__
            raise RegistryError(f"{names} returns a {returned} from {hook}, expected a {expected.__name__}")
        return result

    def changes(self, hook: str) -> bool:
        """Returns whether a component implements a hook."""
        return bool(self._implementers(hook))

    def order(self, hook: str) -> list[str]:
        """Returns the names of the components that implement a hook, in the order of their calls."""
        implementations = reversed(getattr(self._manager.hook, hook).get_hookimpls())
        names = {id(component): name for name, component in self.components.items()}
        return [names[id(item.plugin)] for item in implementations if id(item.plugin) in names]

    def seed(self, seed: int, *place: object) -> None:
        """Seeds the generator of each component for a place in the training: a hook, an update, a batch."""
        for name, component in self.components.items():
            component.generator.manual_seed(stream_seed(seed, "/".join(map(str, ("hooks", name, *place)))))

    def _implementers(self, hook: str) -> list[str]:
        implementations = getattr(self._manager.hook, hook).get_hookimpls()
        return [str(item.plugin_name) for item in implementations if isinstance(item.plugin, Callback)]


def _refuse_unmarked(callback: object, name: str, implemented: Sequence[str], known: Sequence[str]) -> None:
    """Raises RegistryError for a callback that nobody would call, or a method that looks like a hook."""
    unmarked = [hook for hook in known if hook not in implemented and callable(getattr(callback, hook, None))]
    if unmarked:
        methods = " and ".join(unmarked)
        raise RegistryError(f"{name} would never be called for {methods}: mark each method with @hookimpl")
    if not implemented:
        raise RegistryError(f"{name} has no method marked with @hookimpl; the hooks are {', '.join(known)}")


def create_callbacks(blocks: Sequence[Component], registry: Registry) -> dict[str, Callback]:
    """Returns the components that a task lists, by name; the second of a name is called `name#2`.

    Raises:
        ConfigurationError: One refuses its options.
        RegistryError: One cannot be loaded or constructed.
    """
    created: dict[str, Callback] = {}
    counts: Counter[str] = Counter()
    for block in blocks:
        counts[block.name] += 1
        name = block.name if counts[block.name] == 1 else f"{block.name}#{counts[block.name]}"
        created[name] = registry.create(Kind.CALLBACK, block.name, **block.options)
    return created


def load_callbacks(entries: Iterable[Entry], warn: Callable[[str], None]) -> list[ModuleType]:
    """Imports the modules of callbacks that manifests name; `warn` receives a line about each failure."""
    loaded = []
    for entry in entries:
        if entry.state is not EntryState.QUARANTINED:
            try:
                loaded.append(load_module(entry))
                LOADED[entry.target] = entry
            except PlugformerError as error:
                warn(f"left out: {'; '.join(str(error).splitlines())}")
    return loaded
