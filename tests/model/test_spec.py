"""A model needs no task: its specification can be changed and compared."""

from dataclasses import replace

import pytest

from plugformer.configuration import resolve
from plugformer.errors import RegistryError
from plugformer.experiment import Experiment
from plugformer.model import PartSpec, Sizes, build
from plugformer.validation import validate
from plugformer_plugins.attention.grouped import GroupedQueryAttention

OVERRIDES = [
    "model.attention={name: gqa, kv_heads: 2}",
    "model.width=16",
    "model.heads=4",
    "model.ffn_width=32",
    "model.layers=2",
]


@pytest.fixture
def task(registry):
    return validate(resolve("dates", OVERRIDES, registry)).task


def test_a_function_may_make_a_part(registry, task):
    spec = Experiment.of(task, registry).spec
    made = []

    def attention(context):
        made.append(context.place)
        return GroupedQueryAttention(context, kv_heads=1)

    layers = [
        replace(layer, sublayers={**layer.sublayers, "attention": PartSpec(attention)})
        for layer in spec.stacks["encoder"].layers
    ]
    encoder = replace(spec.stacks["encoder"], layers=tuple(layers))
    build(replace(spec, stacks={**spec.stacks, "encoder": encoder}), Sizes(12, 12))
    assert [(place.stack, place.layer, place.causal) for place in made] == [
        ("encoder", 0, False),
        ("encoder", 1, False),
    ]


def test_a_function_that_fails_is_named(registry, task):
    def attention(context):
        raise KeyError(context.width)

    spec = Experiment.of(task, registry).spec
    first, *others = spec.stacks["encoder"].layers
    first = replace(first, sublayers={**first.sublayers, "attention": PartSpec(attention)})
    encoder = replace(spec.stacks["encoder"], layers=(first, *others))
    with pytest.raises(RegistryError, match=r"locals>\.attention: .*KeyError: 16"):
        build(replace(spec, stacks={**spec.stacks, "encoder": encoder}), Sizes(12, 12))
