"""`plugformer schema`: the JSON Schema of task files, from which editors complete keys and values."""

from typing import Any

import typer

from plugformer.errors import RegistryError
from plugformer.registry import Entry, EntryState, Kind, Registry
from plugformer_cli.options import LocalManifest, installed
from plugformer_cli.printing import print_json

Schema = dict[str, Any]

EXAMPLES = ("plugformer schema > plugformer.schema.json",)

_DEFINITIONS = "#/$defs/"
_BLOCKS = {
    "Component": None,
    "DataBlock": Kind.DATA,
    "DecodingBlock": Kind.DECODING,
    "MetricBlock": Kind.METRIC,
    "OptimizerBlock": Kind.OPTIMIZER,
}
"""Definitions of components in the schema of `Task`, and the kind that has keys of its own there."""


def command(ctx: typer.Context, registry: LocalManifest = None) -> None:
    """Print the JSON Schema of task files, for editors.

    It contains every installed component and its options.
    """
    print_json(schema(installed(ctx, registry)), indent=2)


def schema(registry: Registry) -> Schema:
    """Returns the JSON Schema (draft 2020-12) of a task file.

    Of a component that cannot be imported it has only the name. Keys that a task must have are not required
    of a task that extends another.
    """
    from plugformer.configuration import Task

    root = Task.model_json_schema()
    definitions: Schema = root.pop("$defs")
    core = {
        kind: {key: value for key, value in definitions[name]["properties"].items() if key != "name"}
        for name, kind in _BLOCKS.items()
    }
    shared = definitions.pop("TokenizerSettings")["properties"]
    del shared["source"], shared["target"]
    required = _required(root, definitions)
    for name in _BLOCKS:
        del definitions[name]
    mappings = [root, *definitions.values()]
    for mapping in mappings:
        mapping.pop("required", None)
    for properties in (*(mapping.get("properties", {}) for mapping in mappings), *core.values()):
        for key, value in properties.items():
            _name_kinds(value, key)
    for kind in Kind:
        definitions[kind] = _component(registry, kind, core.get(kind, {}), definitions)
    group = definitions["OptimizerGroup"]["properties"]
    del group["name"]
    _, *blocks = _component(registry, Kind.OPTIMIZER, group, definitions)["oneOf"]
    definitions["OptimizerGroup"] = {"oneOf": blocks, "required": ["parameters"]}
    definitions["TokenizerSettings"] = _tokenizers(registry, shared, definitions)
    root["properties"]["extends"] = {
        "type": "string",
        "description": "The task or file that this one changes.",
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **root,
        "if": {"not": {"required": ["extends"]}},
        "then": required,
        "$defs": definitions,
    }


def _required(mapping: Schema, definitions: Schema) -> Schema:
    """Returns the keys that a task and the mappings in it must have."""
    properties = {}
    for key, value in mapping.get("properties", {}).items():
        name = _reference(value)
        if name in _BLOCKS:
            properties[key] = {} if value.get("default") else {"required": ["name"]}
        elif name in definitions:
            properties[key] = _required(definitions[name], definitions)
    properties = {key: keys for key, keys in properties.items() if keys}
    found = {"required": mapping.get("required"), "properties": properties}
    return {key: value for key, value in found.items() if value}


def _reference(value: Schema) -> str:
    """Returns the name of the definition that a value refers to; an empty text if it refers to none."""
    choices = [value, *value.get("anyOf", ())]
    return next((one["$ref"].removeprefix(_DEFINITIONS) for one in choices if "$ref" in one), "")


def _name_kinds(value: Any, key: str) -> None:
    """Changes references to a component's definition, below a key, into references to the key's kind."""
    from plugformer.configuration import kind_at

    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in parts:
        _name_kinds(part, key)
    if isinstance(value, dict) and value.get("$ref", "").removeprefix(_DEFINITIONS) in _BLOCKS:
        value["$ref"] = _DEFINITIONS + kind_at((key,))


def _component(registry: Registry, kind: Kind, core: Schema, definitions: Schema) -> Schema:
    """Returns the schema of a component of a kind: a name, or a block.

    A block without a name adds options to the inherited component.
    """
    entries = [entry for entry in registry.entries(kind) if entry.state is not EntryState.QUARANTINED]
    names = sorted({name for entry in entries for name in _names(entry)})
    nameless = {"type": "object", "not": {"required": ["name"]}, "properties": core}
    blocks = (_block(registry, entry, core, definitions) for entry in entries)
    return {"oneOf": [{"enum": names}, *blocks, nameless]}


def _block(registry: Registry, entry: Entry, core: Schema, definitions: Schema) -> Schema:
    """Returns the schema of a component's block; what its options refer to joins the definitions."""
    from plugformer.configuration import options_model

    properties = {"name": {"enum": _names(entry)}, **core}
    block = {"type": "object", "description": entry.summary, "required": ["name"], "properties": properties}
    prefix = f"{entry.distribution}:{entry.kind}:{entry.name}"
    try:
        model = options_model(registry.load(entry.kind, f"{entry.distribution}:{entry.name}"))
    except RegistryError:
        return block
    options = model.model_json_schema(ref_template=f"{_DEFINITIONS}{prefix}:{{model}}")
    definitions |= {f"{prefix}:{name}": value for name, value in options.get("$defs", {}).items()}
    return {
        **block,
        "properties": {**properties, **options.get("properties", {})},
        "required": ["name", *options.get("required", ())],
        "additionalProperties": False,
    }


def _tokenizers(registry: Registry, shared: Schema, definitions: Schema) -> Schema:
    """Returns the schema of one tokenizer for both sides, or one for each."""
    *named, nameless = _component(registry, Kind.TOKENIZER, shared, definitions)["oneOf"]
    nameless["not"] = {"anyOf": [{"required": [key]} for key in ("name", "source", "target")]}
    side = {"$ref": _DEFINITIONS + Kind.TOKENIZER}
    sides = {
        "type": "object",
        "properties": {"source": side, "target": side, **shared},
        "anyOf": [{"required": ["source"]}, {"required": ["target"]}],
        "additionalProperties": False,
    }
    return {"oneOf": [*named, nameless, sides]}


def _names(entry: Entry) -> list[str]:
    """Returns the names of a component in a task: bare unless it is in conflict, or with its distribution."""
    qualified = f"{entry.distribution}:{entry.name}"
    return [qualified] if entry.state is EntryState.CONFLICT else [entry.name, qualified]
