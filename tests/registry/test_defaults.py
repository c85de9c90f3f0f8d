"""A manifest gives a class several names, each with defaults of its own."""

import pytest
from tests.registry.conftest import Install

from plugformer.errors import ConfigurationError
from plugformer.registry import Registry
from plugformer.registry.options import options_model

MODULE = """
from torch import nn
from plugformer.interfaces import Norm

class Power(Norm):
    '''x to a power.

    Args:
        exponent: The power.
    '''

    def __init__(self, model, *, exponent: float = 1.0, factor: float = 1.0) -> None:
        super().__init__()
        self.exponent, self.factor = exponent, factor

    def forward(self, x):
        return self.factor * x**self.exponent
"""

MANIFEST = """
components:
  norm:
    power: plug.norms:Power
    square: {class: plug.norms:Power, defaults: {exponent: 2}, description: "x x: https://arxiv.org/abs/1"}
    cube: {class: plug.norms:Power, defaults: {exponent: 3.0}}
    wrong: {class: plug.norms:Power, defaults: {exponents: 2.0}}
"""


@pytest.fixture
def registry(install: Install) -> Registry:
    install("plug", MANIFEST, norms=MODULE)
    return Registry.discover()


def test_a_name_has_defaults_of_its_own(registry: Registry) -> None:
    made = {name: registry.create("norm", name, None, factor=0.5) for name in ("power", "square", "cube")}
    assert {name: norm.exponent for name, norm in made.items()} == {"power": 1.0, "square": 2.0, "cube": 3.0}
    assert {norm.factor for norm in made.values()} == {0.5}


def test_a_task_may_set_it(registry: Registry) -> None:
    assert registry.create("norm", "square", None, exponent=5.0).exponent == 5.0
    fields = options_model(registry.load("norm", "square")).model_fields
    assert {name: field.default for name, field in fields.items()} == {"exponent": 2.0, "factor": 1.0}
    assert fields["exponent"].description == "The power."


def test_it_is_one_class_however_often_it_is_loaded(registry: Registry) -> None:
    square, cube = (registry.load("norm", name) for name in ("square", "cube"))
    assert registry.load("norm", "square") is square is not cube
    assert issubclass(square, registry.load("norm", "power"))


def test_the_manifest_may_describe_it(registry: Registry) -> None:
    entries = {entry.name: entry for entry in registry.entries("norm")}
    assert entries["square"].summary == "x x: https://arxiv.org/abs/1"
    assert entries["square"].source == "https://arxiv.org/abs/1"
    assert entries["cube"].summary == "x to a power."


def test_wrong_options_are_the_manifests(registry: Registry) -> None:
    with pytest.raises(ConfigurationError, match=r"norm 'wrong' \(plug 1.0\): option .* 'exponents'"):
        registry.load("norm", "wrong")
