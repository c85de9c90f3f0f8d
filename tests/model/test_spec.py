"""A model needs no task: a specification written by hand gives what a task file gives."""

from dataclasses import replace

import pytest
import torch

from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError, RegistryError
from plugformer.experiment import Experiment
from plugformer.interfaces import EmbeddingSpec, LayerSpec, Level, ModelSpec, PartSpec, Sizes, StackSpec
from plugformer.model import build
from plugformer.validation import validate
from plugformer_plugins.architecture.encoder_decoder import EncoderDecoder
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


def by_hand(registry, task):
    """Returns the specification of the same model, from classes."""

    def part(kind, name, **options):
        return PartSpec(registry.load(kind, name), options)

    attention, norm = part("attention", "gqa", kv_heads=2), part("norm", task.model.norm.name)
    residual = part("residual", task.model.residual.name)
    feed_forward = part("feed_forward", task.model.feed_forward.name)
    position = PartSpec(registry.load("position", task.model.position.name))
    reading = {"attention": attention, "feed_forward": feed_forward}
    crossing = {"attention": attention, "cross_attention": attention, "feed_forward": feed_forward}
    return ModelSpec(
        architecture=EncoderDecoder(),
        level=Level.NEXT_TOKEN,
        stacks={
            "encoder": StackSpec(
                name="encoder",
                causal=False,
                layers=(LayerSpec(reading, norm, residual),) * 2,
                position=position,
                norm=norm,
                read_by=2,
            ),
            "decoder": StackSpec(
                name="decoder",
                causal=True,
                layers=(LayerSpec(crossing, norm, residual),) * 2,
                position=position,
                norm=norm,
            ),
        },
        head=part("head", "language_model"),
        width=16,
        heads=4,
        ffn_width=32,
        max_length=task.model.max_length,
        dropout=task.model.dropout,
        embeddings=EmbeddingSpec(**task.model.embeddings.model_dump()),
        initialization=part("initialization", task.model.initialization.name),
        seed=task.training.seed,
    )


def test_a_model_from_classes_equals_the_same_from_a_task(registry, task):
    from_task = build(Experiment.of(task, registry).spec, Sizes(12, 12)).state_dict()
    from_classes = build(by_hand(registry, task), Sizes(12, 12)).state_dict()
    assert list(from_classes) == list(from_task)
    assert all(torch.equal(from_classes[name], value) for name, value in from_task.items())


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


def test_parts_are_compared_by_what_they_make(registry, task):
    spec = Experiment.of(task, registry).spec
    first, second = spec.stacks["encoder"].layers
    assert first.sublayers["attention"] == second.sublayers["attention"]
    assert first.sublayers["attention"] == PartSpec(GroupedQueryAttention, {"kv_heads": 2, "bias": True})
    assert first.sublayers["attention"] != PartSpec(GroupedQueryAttention, {"kv_heads": 1, "bias": True})


def test_a_stack_has_layers():
    part = PartSpec(dict)
    with pytest.raises(ConfigurationError, match="encoder"):
        StackSpec(name="encoder", causal=False, layers=(), position=part, norm=part)
