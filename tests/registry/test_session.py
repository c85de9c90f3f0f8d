"""Classes that a Python session registers: their names, their hashes, and how they reach a model."""

import gc
import subprocess
import sys
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
from plugformer.registry.source import class_hash, component_lock


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
        ({"norm": {"mine": 3}}, "norm 'mine': .*a class, found 3"),
        ({"attention": {"mine": Halving}}, "Halving is not a Attention"),
    ],
)
def test_what_is_no_component_is_an_error(installed: Registry, components: dict, message: str) -> None:
    with pytest.raises(RegistryError, match=message):
        installed.with_components(components).load("attention", "mine")


def test_the_lock_says_what_the_class_was(installed: Registry) -> None:
    registry = installed.with_components({"norm": {"mine": Halving}})
    assert component_lock("norm", "mine", registry) == {
        "distribution": "session",
        "version": "",
        "source": class_hash(Halving, Norm),
        "class": f"{__name__}:Halving",
        "python": f"{sys.version_info[0]}.{sys.version_info[1]}",
    }


CELL = """
class Mine(Norm):
    scale = 2
    names = frozenset({"a", "b", "c"})
    width: int

    class Inner:
        def twice(self): return 2

    def forward(self, x, factor=1):
        def inner(y): return y * 3 if y in {"p", "q", "r"} else y
        return inner(x)

    @property
    def large(self): return self.scale > 1

    @staticmethod
    def fixed(): return 4
"""


def defined(code: str) -> type:
    namespace: dict = {"Norm": Norm, "__name__": "__main__"}
    exec(compile(code, "<cell>", "exec"), namespace)  # noqa: S102 (a cell of a notebook)
    return namespace["Mine"]


def test_the_hash_of_a_class_does_not_depend_on_where_it_is_defined() -> None:
    moved = defined("x = 1\n\n\n" + CELL)
    assert class_hash(defined(CELL), Norm) == class_hash(moved, Norm)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scale = 2", "scale = 3"),
        ('"b"', '"d"'),
        ("width: int", "width: float"),
        ("return 2", "return 5"),
        ("factor=1", "factor=2"),
        ("y * 3", "y * 4"),
        ('"q"', '"s"'),
        ("self.scale > 1", "self.other > 1"),
        ("return 4", "return 6"),
    ],
)
def test_the_hash_of_a_class_changes_with_its_content(old: str, new: str) -> None:
    assert class_hash(defined(CELL), Norm) != class_hash(defined(CELL.replace(old, new)), Norm)


def test_the_hash_of_a_class_covers_its_bases_up_to_the_interface() -> None:
    first, second = (defined(CELL.replace("return 4", text)) for text in ("return 4", "return 6"))
    derived = [type("Mine", (base,), {}) for base in (first, second)]
    assert class_hash(derived[0], Norm) != class_hash(derived[1], Norm)
    assert class_hash(type("Mine", (Norm,), {}), Norm) == class_hash(type("Mine", (Norm,), {}), Norm)


def test_the_hash_of_a_class_is_the_same_in_another_process() -> None:
    code = (
        "from plugformer.interfaces import Norm; from plugformer.registry.source import class_hash\n"
        f"{CELL}\nprint(class_hash(Mine, Norm))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == class_hash(defined(CELL), Norm)


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
