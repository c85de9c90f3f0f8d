"""Calling hooks: order, and callbacks that are not what they should be."""

import json
import sys
from dataclasses import replace
from types import ModuleType

import pytest

from plugformer.callbacks import HookManager, load_callbacks
from plugformer.errors import RegistryError
from plugformer.hooks import HOOKS, hookimpl
from plugformer.interfaces import Callback
from plugformer.registry import Registry
from plugformer.registry.manifest import parse


def manager(*callbacks: object, **options: bool) -> HookManager:
    return HookManager(callbacks, pytest.fail, **options)


def test_callbacks_are_called_last_first_unless_they_ask():
    told = []

    class First:
        @hookimpl(tryfirst=True)
        def run_ended(self):
            told.append("first")

    class Second:
        @hookimpl
        def run_ended(self, run):
            told.append(run)

    class Third:
        @hookimpl
        def run_ended(self):
            told.append("third")

    manager(First(), Second(), Third()).call("run_ended", run="second")
    assert told == ["first", "third", "second"]


def test_two_callbacks_of_one_class():
    class Counter:
        count = 0

        @hookimpl
        def run_ended(self):
            self.count += 1

    counters = [Counter(), Counter()]
    manager(*counters).call("run_ended", run=None)
    assert [counter.count for counter in counters] == [1, 1]


def misspelt_hook():
    class Logger:
        @hookimpl
        def step_endet(self, run):
            pass

    return Logger()


def misspelt_argument():
    class Logger:
        @hookimpl
        def step_ended(self, updates):
            pass

    return Logger()


@pytest.mark.parametrize(
    ("observer", "wrong"), [(misspelt_hook(), "step_endet"), (misspelt_argument(), "updates")]
)
def test_misspelt_hooks_and_arguments_are_refused(observer, wrong):
    with pytest.raises(RegistryError, match=f"(?s)Logger implements an unknown hook, .*{wrong}") as caught:
        manager(observer)
    assert str(caught.value).endswith(f"Hooks: {', '.join(HOOKS)}")


class Unmarked:
    def step_ended(self):
        pass


@pytest.mark.parametrize(
    ("callback", "message"),
    [(print, "print has no method marked with @hookimpl"), (Unmarked(), "Unmarked .* called for step_ended")],
)
def test_a_callback_that_nobody_would_call_is_refused(callback, message):
    with pytest.raises(RegistryError, match=message):
        manager(callback)


@pytest.mark.parametrize("option", ["wrapper", "hookwrapper"])
def test_wrappers_are_refused(option):
    class Logger:
        @hookimpl(**{option: True})
        def step_ended(self):
            yield

    with pytest.raises(RegistryError, match=r"Logger changes what step_ended does"):
        manager(Logger())


def test_a_component_may_wrap_what_others_do_in_a_hook_that_others_watch():
    told = []

    class Watching:
        @hookimpl
        def step_ended(self, update):
            told.append(update)

    class Failing:
        @hookimpl
        def step_ended(self):
            raise KeyError("a")

    class Wrapper(Callback):
        @hookimpl(wrapper=True)
        def step_ended(self):
            told.append("before")
            result = yield
            told.append("after")
            return result

    warnings = []
    hooks = HookManager([Watching(), Failing()], warnings.append, {"wrapper": Wrapper()})
    for step in (1, 2):
        hooks.call("step_ended", run=None, update=step)
    assert told == ["before", 1, "after", "before", 2, "after"]
    assert len(warnings) == 1


def test_an_error_of_a_component_is_raised():
    class Strict(Callback):
        @hookimpl
        def step_ended(self):
            raise KeyError("a")

    with pytest.raises(KeyError, match="a"):
        HookManager([], pytest.fail, {"strict": Strict()}).call("step_ended", run=None, update=None)


def hooks_of(*modules, cause=""):
    """Returns the entries of a plugin with these hook modules."""
    manifest = parse(f"callbacks: [{', '.join(modules)}]".encode(), "registry.yaml")
    problems = (cause,) if cause else ()
    return Registry([replace(manifest, distribution="plugin-h", version="1.0", problems=problems)]).entries(
        "callbacks"
    )


def test_modules_of_plugins(monkeypatch):
    told = []
    module = ModuleType("hooks_of_manager_tests")
    module.run_ended = hookimpl(lambda run: told.append(run))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    manager(*load_callbacks(hooks_of(module.__name__), pytest.fail)).call("run_ended", run="it")
    assert told == ["it"]


def test_a_module_that_cannot_be_imported_is_left_out():
    warnings = []
    assert load_callbacks(hooks_of("no_such_module", "json"), warnings.append) == [json]
    assert warnings == [
        "left out: callbacks 'no_such_module' (plugin-h 1.0): importing no_such_module failed: "
        "ModuleNotFoundError: No module named 'no_such_module'; update, repair or uninstall that "
        "distribution; everything else works without it"
    ]


def test_a_component_that_changes_a_training_is_named_in_the_task():
    class Average(Callback):
        @hookimpl
        def evaluated_parameters(self, run, model):
            return None

    with pytest.raises(RegistryError, match=r"Average changes what .* training\.callbacks"):
        manager(Average())
