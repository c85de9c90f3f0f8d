"""Classes that a Python session registers: their names, their hashes, and how they reach a model."""

import gc
import linecache
import weakref
from collections.abc import Callable

import pytest
import torch

from plugformer.configuration import options_model, resolve
from plugformer.configuration.resolving import check_components
from plugformer.errors import RegistryError
from plugformer.interfaces import Norm
from plugformer.registry import Registry
from plugformer.registry.discovery import load_component
from plugformer.registry.source import component_lock


class Halving(Norm):
    """Divides by a number.

    Args:
        by: The number.
    """

    limits = frozenset({"low", "high", "middle"})

    def __init__(self, context: object, *, by: float = 2.0) -> None:
        super().__init__()
        self.by = by

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / self.by if self.by in {1, 2, 3} else x


class Other(Norm):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


@pytest.fixture(scope="module")
def installed() -> Registry:
    return Registry.discover()


def test_a_class_of_the_session_is_a_component_of_a_new_registry(installed: Registry) -> None:
    registry = installed.with_components({"norm": {"halving": Halving}})
    assert registry.load("norm", "halving") is registry.load("norm", "session:halving") is Halving
    assert registry.create("norm", "halving", None, by=4.0).by == 4.0
    assert registry.find("norm", "halving").summary == "Divides by a number."
    with pytest.raises(RegistryError, match="unknown norm 'halving'"):
        installed.find("norm", "halving")


def test_a_task_uses_a_class_of_the_session_with_its_options(installed: Registry) -> None:
    registry = installed.with_components({"norm": {"halving": Halving}})
    resolved = check_components(resolve("dates", ["model.norm={name: halving, by: 3}"], registry))
    assert resolved.task.model.norm.options == {"by": 3}
    assert resolved.registry.create("norm", "halving", None, **resolved.task.model.norm.options).by == 3


def test_a_name_that_a_plugin_has_too_is_in_conflict(installed: Registry) -> None:
    registry = installed.with_components({"norm": {"layer_norm": Halving}})
    with pytest.raises(RegistryError) as caught:
        registry.find("norm", "layer_norm")
    assert f"session ({__name__}:Halving)" in str(caught.value)
    assert "write plugformer:layer_norm or session:layer_norm" in str(caught.value)
    assert registry.load("norm", "session:layer_norm") is Halving


def test_the_same_class_may_be_given_again_and_another_one_is_in_conflict(installed: Registry) -> None:
    registry = installed.with_components({"norm": {"mine": Halving}})
    assert registry.with_components({"norm": {"mine": Halving}}).load("norm", "mine") is Halving
    with pytest.raises(RegistryError, match="session:mine"):
        registry.with_components({"norm": {"mine": Other}}).find("norm", "mine")
    assert installed.with_components({"norm": {"mine": Other}}).load("norm", "mine") is Other


@pytest.mark.parametrize(
    ("components", "message"),
    [
        ({"nrom": {"mine": Halving}}, r"unknown kind 'nrom' \(did you mean 'norm'\?\)"),
        ({"norm": {"my norm": Halving}}, "norm 'my norm'"),
        ([Halving], r"components: expected classes by kind and name, found \[<class"),
        ({"norm": {"mine": 3}}, "norm 'mine': .*a class, found 3"),
        ({"attention": {"mine": Halving}}, "Halving is not a Attention"),
    ],
)
def test_what_is_no_component_is_an_error(installed: Registry, components: dict, message: str) -> None:
    with pytest.raises(RegistryError, match=message):
        installed.with_components(components).load("attention", "mine")


CELL = """
class Mine(Norm):
    def forward(self, x):
        return 2 * x
"""


def defined(code: str) -> type:
    """Returns the class of a cell, whose lines Python knows as it does in a notebook."""
    name = f"<cell {len(linecache.cache)}>"
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    namespace: dict = {"Norm": Norm, "__name__": "__main__"}
    exec(compile(code, name, "exec"), namespace)  # noqa: S102 (a cell of a notebook)
    return namespace["Mine"]


@pytest.mark.parametrize(("code", "same"), [(f"x = 1{CELL}", True), (CELL.replace("2", "3"), False)])
def test_the_lock_says_what_the_class_was(installed: Registry, code: str, same: bool) -> None:
    def lock(component: type) -> dict:
        return component_lock(installed.with_components({"norm": {"mine": component}}).find("norm", "mine"))

    assert (lock(defined(CELL)) == lock(defined(code))) is same
    assert lock(Halving) != lock(defined(CELL))
    assert lock(Halving).keys() == {"distribution", "version", "source"}


def test_nothing_keeps_a_class_alive_that_nobody_uses(installed: Registry) -> None:
    def use() -> Callable[[], type | None]:
        component = defined(CELL)
        entry = installed.with_components({"norm": {"mine": component}}).find("norm", "mine")
        load_component(entry, entry.kind)
        options_model(component)
        return weakref.ref(component)

    reference = use()
    gc.collect()
    assert reference() is None
