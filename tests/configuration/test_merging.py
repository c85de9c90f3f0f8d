"""Merging: each rule of composition by itself, on trees without files."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from plugformer.configuration.overrides import merge_layers, read_overrides
from plugformer.configuration.structure import default_blocks
from plugformer.errors import ConfigurationError
from plugformer.yaml_tree import MappingNode, plain, read_mapping


def layer(text: str, name: str = "task.yaml") -> MappingNode:
    return read_mapping(text.encode(), name, Path())


def merged(*texts: str) -> Any:
    return plain(merge_layers([layer(text) for text in texts])[0])


def notices(*texts: str) -> list[str]:
    return merge_layers([layer(text, f"{index}.yaml") for index, text in enumerate(texts)])[1]


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
            "training: {hooks: [ema]}",
            "training: {hooks: {0: {decay: 0.9}}}",
            "training: {hooks: [{name: ema, decay: 0.9}]}",
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
        # One tokenizer, extended on one side, becomes one for each.
        (
            "tokenizer: {name: bpe, size: 9, shared: true}",
            "tokenizer: {source: {size: 3}}",
            "tokenizer: {source: {name: bpe, size: 3}, target: {name: bpe, size: 9}}",
        ),
        (
            "tokenizer: bpe",
            "tokenizer: {target: words}",
            "tokenizer: {source: {name: bpe}, target: words}",
        ),
        ("tokenizer: {source: bpe, target: words}", "tokenizer: bpe", "tokenizer: bpe"),
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
    ("over", "cleared"),
    [
        (
            "attention: mla",
            [
                "encoder.attention",
                "encoder.per_layer.0.attention",
                "decoder.attention",
                "decoder.cross_attention.attention",
            ],
        ),
        ("attention: {kv_heads: 2}", []),
        ("layers: 4", ["encoder.layers"]),
        ("position: learned", ["encoder.position"]),
        ("norm: rms_norm", ["encoder.per_layer.0.norm"]),
        ("feed_forward: gelu", ["decoder.feed_forward"]),
        ("encoder: {attention: mha}", ["encoder.per_layer.0.attention"]),
        ("decoder: {attention: mha}", ["decoder.cross_attention.attention"]),
        ("width: 8", []),
    ],
)
def test_a_part_of_all_clears_the_same_part_of_some(over: str, cleared: list[str]) -> None:
    found = [
        notice.partition("clears model.")[2].partition(",")[0]
        for notice in notices(SPECIFIC, f"model: {{{over}}}")
    ]
    assert found == cleared
    model = merged(SPECIFIC, f"model: {{{over}}}")["model"]
    for path in found:
        *outer, last = path.split(".")
        inner = model
        for key in outer:
            inner = inner[int(key) if key.isdecimal() else key]
        assert last not in inner


def test_an_item_that_a_list_lacks_is_refused() -> None:
    base, over = layer("evaluation: {metrics: [bleu, chrf]}"), read_overrides(["evaluation.metrics.2=a"])
    place = r"--set evaluation\.metrics\.2=a  evaluation\.metrics\.2: "
    message = f"{place}there is no item 2 in the list of 2 written at task.yaml:1:23"
    with pytest.raises(ConfigurationError, match=message):
        merge_layers([base, over])


def test_a_notice_says_what_was_cleared_and_where_it_stood() -> None:
    assert notices("model:\n  encoder: {norm: rms_norm}", "model: {norm: layer_norm}") == [
        "1.yaml:1:15  model.norm: clears model.encoder.norm, written at 0.yaml:2:19"
    ]


def test_default_components_lend_their_names_to_options() -> None:
    tree, _ = merge_layers([default_blocks(), layer("training: {optimizer: {weight_decay: 0.1}}")])
    assert plain(tree)["training"]["optimizer"] == {"name": "adamw", "lr": 0.001, "weight_decay": 0.1}


def test_a_mapping_keeps_its_place_under_set() -> None:
    tree, _ = merge_layers([layer("model: {width: 1}"), read_overrides(["model.heads=2"])])
    model = tree.items["model"]
    assert str(model.origin) == "task.yaml:1:8"
    assert isinstance(model, MappingNode)
    assert str(model.items["heads"].origin) == "--set model.heads=2"
