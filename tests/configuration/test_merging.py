"""Merging: each rule of composition by itself, on trees without files."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from plugformer.configuration import resolve
from plugformer.configuration.overrides import merge_layers, read_overrides, shadowed
from plugformer.configuration.structure import components, default_blocks
from plugformer.configuration.task import Component
from plugformer.errors import ConfigurationError
from plugformer.yaml_reader import read_mapping
from plugformer.yaml_tree import Tree


def layer(text: str, name: str = "task.yaml") -> Tree:
    return read_mapping(text.encode(), name, Path())


def merged(*texts: str) -> Any:
    return merge_layers([layer(text) for text in texts]).value


@pytest.mark.parametrize(
    ("base", "over", "result"),
    [
        # A number over a list is the key of one of its items.
        (
            "evaluation: {metrics: [bleu, {name: chrf, word_order: 2}]}",
            "evaluation: {metrics: {0: exact_match, 1: {word_order: 1}}}",
            "evaluation: {metrics: [exact_match, {name: chrf, word_order: 1}]}",
        ),
        (
            "training: {callbacks: [ema]}",
            "training: {callbacks: {0: {decay: 0.9}}}",
            "training: {callbacks: [{name: ema, decay: 0.9}]}",
        ),
        (
            "training: {optimizer: {name: adamw, groups: [{parameters: [head]}, {parameters: [a, b]}]}}",
            "training: {optimizer: {groups: {1: {parameters: {0: c}, lr_factor: 2}}}}",
            "training: {optimizer: {name: adamw, groups: [{parameters: [head]}, "
            "{parameters: [c, b], lr_factor: 2}]}}",
        ),
        (
            "data: {files: {train: [{source: a, target: b}]}}",
            "data: {files: {train: {source: c, target: d}}}",
            "data: {files: {train: {source: c, target: d}}}",
        ),
        # A block with a name, or a name alone, replaces the block below whole.
        (
            "model: {attention: {name: gqa, kv_heads: 2}}",
            "model: {attention: {name: mha, bias: false}}",
            "model: {attention: {name: mha, bias: false}}",
        ),
        (
            "model: {attention: {name: gqa, kv_heads: 2}}",
            "model: {attention: mha}",
            "model: {attention: mha}",
        ),
        # ... except settings that belong to the core.
        (
            "data: {name: table, file: x, length: {max: 9}, padding: 3, split: {test: 0.1, by: order}}",
            "data: {name: hub, split: {test: 0.2}}",
            "data: {name: hub, length: {max: 9}, padding: 3, split: {test: 0.2, by: order}}",
        ),
        ("data: {name: table, file: x, padding: 3}", "data: hub", "data: {name: hub, padding: 3}"),
        (
            "tokenizer: {name: bpe, size: 9, shared: false}",
            "tokenizer: words",
            "tokenizer: {name: words, shared: false}",
        ),
        # Without a name a block merges, into a name alone as well.
        (
            "model: {attention: {name: gqa, kv_heads: 2}}",
            "model: {attention: {bias: false}}",
            "model: {attention: {name: gqa, kv_heads: 2, bias: false}}",
        ),
        (
            "model: {attention: gqa}",
            "model: {attention: {kv_heads: 2}}",
            "model: {attention: {name: gqa, kv_heads: 2}}",
        ),
        (
            "data: {name: t, files: {train: a, test: b}, columns: [x, y]}",
            "data: {files: {test: c}, columns: [z]}",
            "data: {name: t, files: {train: a, test: c}, columns: [z]}",
        ),
        # Plain mappings merge, lists and values replace.
        ("model: {width: 1, heads: 2}", "model: {heads: 3}", "model: {width: 1, heads: 3}"),
        ("evaluation: {metrics: [a, b]}", "evaluation: {metrics: [c]}", "evaluation: {metrics: [c]}"),
        (
            "model: {encoder: {per_layer: {0: {norm: a}}}}",
            "model: {encoder: {per_layer: {1: {norm: b}}}}",
            "model: {encoder: {per_layer: {0: {norm: a}, 1: {norm: b}}}}",
        ),
        # A key clears the key that it excludes; null excludes nothing.
        ("training: {epochs: 5, seed: 1}", "training: {steps: 9}", "training: {seed: 1, steps: 9}"),
        ("training: {batch_size: 5}", "training: {batch_tokens: 9}", "training: {batch_tokens: 9}"),
        ("training: {epochs: 5}", "training: {steps: null}", "training: {epochs: 5, steps: null}"),
        ("training: {epochs: 5}", "training: {epochs: 1, steps: 2}", "training: {epochs: 1, steps: 2}"),
        # A tokenizer is one for both sides, or one for each side.
        (
            "tokenizer: {name: bpe, size: 9, shared: true}",
            "tokenizer: {source: bpe, target: words}",
            "tokenizer: {source: bpe, target: words}",
        ),
        (
            "tokenizer: {source: {name: bpe, size: 9}, target: words}",
            "tokenizer: {source: {size: 3}}",
            "tokenizer: {source: {name: bpe, size: 3}, target: words}",
        ),
        ("tokenizer: {source: bpe, target: words}", "tokenizer: bpe", "tokenizer: bpe"),
        ("tokenizer: bpe", "tokenizer: {run: a}", "tokenizer: {run: a}"),
        ("tokenizer: {run: a, shared: true}", "tokenizer: {target: words}", "tokenizer: {target: words}"),
        ("tokenizer: bpe", "tokenizer: {shared: false}", "tokenizer: {name: bpe, shared: false}"),
        ("tokenizer: bpe", "tokenizer: {size: 3}", "tokenizer: {name: bpe, size: 3}"),
    ],
)
def test_rules(base: str, over: str, result: str) -> None:
    assert merged(base, over) == yaml.safe_load(result)


SPECIFIC = """
model:
  attention: mha
  layers: 2
  position: rope
  encoder: {layers: 3, attention: gqa, position: learned, per_layer: {0: {attention: mqa, norm: rms_norm}}}
  decoder: {attention: gqa, feed_forward: relu, cross_attention: {attention: mqa, position: rope}}
"""


@pytest.mark.parametrize(
    ("over", "kept"),
    [
        (
            "attention: mla",
            [
                "decoder.attention",
                "decoder.cross_attention.attention",
                "encoder.attention",
                "encoder.per_layer.0.attention",
            ],
        ),
        ("attention: {kv_heads: 2}", []),
        ("layers: 4", ["encoder.layers"]),
        ("layers: 4, encoder: {layers: null}", []),
        ("position: learned", ["encoder.position"]),
        ("norm: rms_norm", ["encoder.per_layer.0.norm"]),
        ("feed_forward: gelu, decoder: {feed_forward: gelu}", []),
        ("encoder: {attention: mha}", ["encoder.per_layer.0.attention"]),
        ("decoder: {attention: mha}", ["decoder.cross_attention.attention"]),
        ("width: 8", []),
    ],
)
def test_a_part_of_all_over_another_of_some_is_a_problem(over: str, kept: list[str]) -> None:
    found = [problem.message for problem in shadowed(layer(SPECIFIC), layer(f"model: {{{over}}}"))]
    assert sorted(message.partition(",")[0] for message in found) == [f"model.{path}" for path in kept]


def test_a_part_of_all_names_the_other_that_stays(write, registry, base) -> None:
    write("mine.yaml", "extends: base.yaml\nmodel:\n  encoder: {norm: rms_norm}\n")
    message = r"^--set model\.norm=layer_norm  model\.norm: model\.encoder\.norm, written at mine\.yaml:3:19,"
    with pytest.raises(ConfigurationError, match=message):
        resolve("mine.yaml", ["model.norm=layer_norm"], registry)
    task = resolve("mine.yaml", ["model.norm=layer_norm", "model.encoder.norm=null"], registry).task
    assert task.model.encoder.norm is None


def test_an_item_that_a_list_lacks_is_refused() -> None:
    base, over = layer("evaluation: {metrics: [bleu, chrf]}"), read_overrides(["evaluation.metrics.2=a"])
    message = r"--set evaluation\.metrics\.2=a  evaluation\.metrics\.2: there is no item 2 in a list of 2"
    with pytest.raises(ConfigurationError, match=message):
        merge_layers([base, over])


def test_default_components_lend_their_names_to_options() -> None:
    tree = merge_layers([Tree(default_blocks(), {}), layer("training: {optimizer: {weight_decay: 0.1}}")])
    optimizer = tree.get(("training", "optimizer"))
    assert optimizer == {"name": "adamw", "lr": 0.001, "weight_decay": 0.1}


def test_a_mapping_keeps_its_place_under_set() -> None:
    tree = merge_layers([layer("model: {width: 1}"), read_overrides(["model.heads=2"])])
    assert str(tree.origin(("model",))) == "task.yaml:1:8"
    assert str(tree.origin(("model", "heads"))) == "--set model.heads=2"


def test_a_name_alone_has_its_own_place() -> None:
    tree = merge_layers([layer("data: {name: table, padding: 3}"), layer("data: hub", "over.yaml")])
    assert str(tree.origin(("data", "name"))) == "over.yaml:1:7"
    assert str(tree.origin(("data", "padding"))) == "task.yaml:1:30"


def test_an_option_may_be_called_keys() -> None:
    component = Component.model_validate({"name": "recall", "keys": None, "items": 3})
    assert list(components(component)) == [((), component)]
    assert list(components([component])) == [((0,), component)]
