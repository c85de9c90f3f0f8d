"""The --set arguments: order-free, YAML values, and mistakes that quote the argument."""

import re
from itertools import permutations

import pytest

from plugformer.configuration.overrides import Changes, merge_layers, read_changes, read_overrides
from plugformer.errors import ConfigurationError
from plugformer.registry import Registry


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("model.width=64", {"model": {"width": 64}}),
        ("training.optimizer.lr=1e-4", {"training": {"optimizer": {"lr": 1e-4}}}),
        ("data.path=a=b.txt", {"data": {"path": "a=b.txt"}}),
        (
            "model.attention={name: gqa, kv_heads: 2}",
            {"model": {"attention": {"name": "gqa", "kv_heads": 2}}},
        ),
        ("evaluation.metrics=[accuracy]", {"evaluation": {"metrics": ["accuracy"]}}),
        ("model.final_norm=null", {"model": {"final_norm": None}}),
        (
            "model.encoder.per_layer.0.norm=rms_norm",
            {"model": {"encoder": {"per_layer": {0: {"norm": "rms_norm"}}}}},
        ),
        (f"{'9' * 5000}=1", {"9" * 5000: 1}),
    ],
)
def test_values_are_yaml(argument: str, value: object) -> None:
    assert read_overrides([argument]).value == value


@pytest.mark.parametrize(
    "changes",
    [
        "model.width=64",
        ["model.width=64"],
        {"model": {"width": 64}},
        [{"model": {"width": 8}}, "model.width=64"],
    ],
)
def test_changes_are_text_a_dictionary_or_a_list(changes: Changes) -> None:
    assert merge_layers(read_changes(changes, Registry.built_in())[0]).value == {"model": {"width": 64}}


@pytest.mark.parametrize("name", ["model.attention=gqa", "model.attention.name=gqa"])
def test_a_name_and_its_options_combine_in_any_order(name: str) -> None:
    for order in permutations([name, "model.attention.kv_heads=2", "model.width=8"]):
        assert read_overrides(order).value == {
            "model": {"attention": {"name": "gqa", "kv_heads": 2}, "width": 8}
        }


def test_nodes_quote_their_argument() -> None:
    tree = read_overrides(["description=two words"])
    assert str(tree.origin(("description",))) == "--set 'description=two words'"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["model.width"], "--set model.width  expected KEY=VALUE with a dotted key"),
        (["=3"], "--set =3  expected KEY=VALUE"),
        (["a..b=3"], "--set a..b=3  expected KEY=VALUE"),
        ([f"a={'[' * 3000}"], "nested too deeply: more than 100 levels"),
        (["a.b="], "--set a.b=  a.b: has no value; to have none, write a.b=null"),
        (["a.b= "], "--set 'a.b= '  a.b: has no value"),
        (["a=[1"], "--set 'a=[1'  is not valid YAML"),
        (["a=1", "a=2"], "--set a=2  a: is set twice; also by --set a=1"),
        (["training.steps=5", "training.epochs=3"], "training.steps: has no effect beside another --set"),
        (["training.epochs=3", "training.steps=5"], "training.epochs: has no effect beside another --set"),
    ],
)
def test_messages(arguments: list[str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        read_overrides(arguments)
