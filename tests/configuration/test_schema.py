"""The editor schema agrees with what resolving a task accepts."""

import json
from dataclasses import replace
from typing import Any

import pytest
import yaml

from plugformer.registry import Kind, Registry
from plugformer.registry.manifest import Plugin, parse
from plugformer_cli.schema import schema

jsonschema = pytest.importorskip("jsonschema", reason="comes with the dev extra")


@pytest.fixture(scope="module")
def validator(registry: Registry) -> Any:
    found = schema(registry)
    jsonschema.Draft202012Validator.check_schema(found)
    return jsonschema.Draft202012Validator(found)


def accepted(validator: Any, text: str) -> bool:
    # Keys of JSON are text, and YAML 1.1 suffices for the values used here.
    return bool(validator.is_valid(json.loads(json.dumps(yaml.safe_load(text)))))


def test_every_reference_is_defined(registry: Registry) -> None:
    found = schema(registry)
    text = json.dumps(found)
    references = {part.partition('"')[0] for part in text.split('"$ref": "#/$defs/')[1:]}
    assert references <= set(found["$defs"])


@pytest.mark.parametrize(
    "change",
    [
        "model: {attention: {name: gqa, kv_heads: 2, bias: false}}",
        "model: {attention: {name: 'plugformer:gqa'}}",
        "model: {attention: {bias: false}}",
        "model: {encoder: {attention: null, per_layer: {0: {norm: rms_norm}}}}",
        "model: {decoder: {cross_attention: {position: {name: rope}}}}",
        "tokenizer: {name: characters, min_frequency: 2, shared: false}",
        "tokenizer: {source: characters, target: {name: characters, min_frequency: 2}}",
        "data: {name: files, train: [a, b], padding: 3, split: {test: 0.1}}",
        "decoding: {max_length: source+5}",
        "training: {optimizer: {lr: 0.1}, schedule: constant}",
        "training: {optimizer: {groups: [{parameters: [head], lr: 0.1, schedule: constant}]}}",
        "evaluation: {metrics: [bleu, {name: bleu, tokenize: zh, as: characters}, token_accuracy]}",
        "registry: parts.yaml",
    ],
)
def test_what_resolves_is_accepted(validator, change: str) -> None:
    assert accepted(validator, f"extends: base.yaml\n{change}")


@pytest.mark.parametrize(
    "change",
    [
        "model: {attention: gqaa}",
        "model: {attention: {name: gqa, kvheads: 2}}",
        "model: {attention: {name: gqa, kv_heads: 0}}",
        "model: {encoder: {per_layer: {0: {norm: mha}}}}",
        "model: {decoder: {cross_attention: {position: mha}}}",
        "tokenizer: {source: characters, kind: 3}",
        "data: {name: files}",
        "data: {name: files, train: a, splt: {}}",
        "decoding: {max_length: sauce+5}",
        "training: {optimizer: {groups: [{lr: 0.1}]}}",
        "training: {optimizer: {groups: [{parameters: [head], name: lion, epsilon: 1}]}}",
        "evaluation: {metrics: [{name: bleu, as: 3}]}",
        "evaluation: {metrics: [{name: bleu, as_: b}]}",
        "extend: x",
    ],
)
def test_what_does_not_resolve_is_refused(validator, change: str) -> None:
    assert not accepted(validator, f"extends: base.yaml\n{change}")


@pytest.mark.parametrize("drop", ["type", "data", "tokenizer", "model", "architecture", "head"])
def test_keys_are_required_unless_the_task_extends_another(validator, base, drop: str) -> None:
    task = yaml.safe_load(base.read_text())
    assert validator.is_valid(task)
    for mapping in (task, task.get("model", {})):
        mapping.pop(drop, None)
    assert not validator.is_valid(task)
    assert validator.is_valid({"extends": "base.yaml", **task})


def test_a_default_component_lends_its_name(validator, base) -> None:
    task = yaml.safe_load(base.read_text())
    task["model"]["attention"] = {"bias": False}
    assert validator.is_valid(task)
    task["model"]["head"] = {"bias": False}
    assert not validator.is_valid(task)


def test_options_have_descriptions(registry: Registry) -> None:
    (gqa,) = (
        block
        for block in schema(registry)["$defs"][Kind.ATTENTION]["oneOf"]
        if "gqa" in block.get("properties", {}).get("name", {}).get("enum", [])
    )
    assert gqa["properties"]["kv_heads"]["description"]
    assert gqa["description"]


def test_a_component_that_cannot_be_imported_is_known_by_name() -> None:
    manifest = parse(b"components: {norm: {gone: {class: 'no_such_module_at_all:Gone'}}}", "registry.yaml")
    broken = Plugin(distribution="plug-b", version="1", problems=("broken",))
    sound = replace(manifest, distribution="plug-g", version="1")
    norm = schema(Registry([sound, broken]))["$defs"]["norm"]
    validator = jsonschema.Draft202012Validator(norm)
    assert validator.is_valid("gone")
    assert validator.is_valid({"name": "plug-g:gone", "anything": 3})
    assert not validator.is_valid("other")


def test_a_name_in_conflict_needs_its_distribution() -> None:
    manifests = [parse(f"components: {{norm: {{n: {{class: '{m}:N'}}}}}}".encode(), "r.yaml") for m in "ab"]
    plugins = [
        replace(manifest, distribution=f"plug-{name}", version="1")
        for name, manifest in zip("ab", manifests, strict=True)
    ]
    validator = jsonschema.Draft202012Validator(schema(Registry(plugins))["$defs"]["norm"])
    assert not validator.is_valid("n")
    assert validator.is_valid("plug-a:n")


@pytest.mark.parametrize("name", [entry.name for entry in Registry.discover().entries("task")])
def test_every_registered_task_is_accepted(validator, registry: Registry, name: str) -> None:
    text = registry.find_task(name).read_text(encoding="utf-8")
    assert accepted(validator, text), list(validator.iter_errors(yaml.safe_load(text)))


@pytest.mark.parametrize(("rows", "sound"), [(3, True), (0, False), ("many", False)])
def test_options_of_a_plugin_are_known_in_a_registered_task(validator, registry, rows, sound: bool) -> None:
    task = yaml.safe_load(registry.find_task("dates").read_text(encoding="utf-8"))
    task["data"] = {"name": "files", "train": "a.tsv", "rows": rows}
    assert validator.is_valid(task) is sound
    assert not validator.is_valid({**task, "data": {**task["data"], "rwos": 3}})
