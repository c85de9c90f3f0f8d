"""The JSON Schema of task files, with every installed component's options: what editors complete from."""

from types import UnionType
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from plugformer.configuration.blocks import core_keys, kind_at
from plugformer.configuration.task import (
    Component,
    DataBlock,
    DecodingBlock,
    MetricBlock,
    Task,
    Tokenizers,
)
from plugformer.errors import RegistryError
from plugformer.explanations import key_of
from plugformer.kinds import Kind
from plugformer.registry import Entry, EntryState, Registry
from plugformer.registry.options import options_model

Schema = dict[str, Any]

_DEFINITIONS = "#/$defs/"
_CORE: dict[Kind, type[BaseModel]] = {
    Kind.DATA: DataBlock,
    Kind.DECODING: DecodingBlock,
    Kind.METRIC: MetricBlock,
}
_BLOCKS = [Component.__name__, *(model.__name__ for model in _CORE.values())]


def schema(registry: Registry) -> Schema:
    """Returns the JSON Schema (draft 2020-12) of a task file.

    Components are imported for their options, each guarded: of one that cannot be imported only the name is
    known. Keys that a task must have are not required of one that extends another.
    """
    root = Task.model_json_schema()
    definitions: Schema = root.pop("$defs")
    for model in _BLOCKS:
        del definitions[model]
    for each in (root, *definitions.values()):
        each.pop("required", None)
        for key, slot in each.get("properties", {}).items():
            _point(slot, key)
    for kind in Kind:
        core = _core_properties(_CORE.get(kind))
        definitions[kind] = _component(registry, kind, core, definitions)
    definitions["Tokenizers"] = _tokenizers(registry, definitions)
    root["properties"]["extends"] = {
        "type": "string",
        "description": "The task or file that this one changes.",
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **root,
        "if": {"not": {"required": ["extends"]}},
        "then": _required(Task),
        "$defs": definitions,
    }


def _point(slot: Any, key: str) -> None:
    """Makes references to a component's block, below the property `key`, refer to the property's kind."""
    parts = slot.values() if isinstance(slot, dict) else slot if isinstance(slot, list) else ()
    for part in parts:
        _point(part, key)
    if isinstance(slot, dict) and slot.get("$ref", "").removeprefix(_DEFINITIONS) in _BLOCKS:
        kind = Kind.TOKENIZER if key in ("source", "target") else kind_at((key,))
        slot["$ref"] = _DEFINITIONS + kind


def _component(registry: Registry, kind: Kind, core: Schema, definitions: Schema) -> Schema:
    """Returns the schema of a component of a kind: a name, or a block.

    A block without a name adds options to the inherited one, whichever that is.
    """
    usable = [entry for entry in registry.entries(kind) if entry.state is not EntryState.QUARANTINED]
    names = [name for entry in usable for name in _names(entry)]
    nameless = {"type": "object", "not": {"required": ["name"]}, "properties": core}
    choices = [_block(registry, entry, core, definitions) for entry in usable]
    return {"oneOf": [{"enum": sorted(set(names))}, *choices, nameless]}


def _block(registry: Registry, entry: Entry, core: Schema, definitions: Schema) -> Schema:
    name = {"enum": _names(entry)}
    described = {"type": "object", "description": entry.summary, "required": ["name"]}
    try:
        model = options_model(registry.load(entry.kind, f"{entry.distribution}:{entry.name}"))
        options = _options(model, f"{entry.distribution}:{entry.kind}:{entry.name}", definitions)
    except RegistryError:
        return {**described, "properties": {"name": name, **core}}
    required = [key_of(name, field) for name, field in model.model_fields.items() if field.is_required()]
    return {
        **described,
        "properties": {"name": name, **core, **options},
        "required": ["name", *required],
        "additionalProperties": False,
    }


def _options(model: type[BaseModel], prefix: str, definitions: Schema) -> Schema:
    """Returns the options' schemas; what they refer to joins the definitions under the component's name."""
    own = model.model_json_schema(ref_template=f"{_DEFINITIONS}{prefix}:{{model}}")
    for name, definition in own.get("$defs", {}).items():
        definitions[f"{prefix}:{name}"] = definition
    options: Schema = own.get("properties", {})
    return options


def _tokenizers(registry: Registry, definitions: Schema) -> Schema:
    shared = _core_properties(Tokenizers)
    one = _component(registry, Kind.TOKENIZER, shared, definitions)
    *named, nameless = one["oneOf"]
    nameless["not"] = {"anyOf": [{"required": [key]} for key in ("name", "source", "target")]}
    side = {"$ref": _DEFINITIONS + Kind.TOKENIZER}
    sides = {
        "type": "object",
        "properties": {"source": side, "target": side, **shared},
        "anyOf": [{"required": ["source"]}, {"required": ["target"]}],
        "additionalProperties": False,
    }
    return {"oneOf": [*named, nameless, sides]}


def _core_properties(model: type[BaseModel] | None) -> Schema:
    if model is None:
        return {}
    properties = model.model_json_schema()["properties"]
    return {key: properties[key] for key in sorted(core_keys(model))}


def _names(entry: Entry) -> list[str]:
    """Returns the names of a component in a task: bare unless it is in conflict, or with its distribution."""
    qualified = f"{entry.distribution}:{entry.name}"
    return [qualified] if entry.state is EntryState.CONFLICT else [entry.name, qualified]


def _required(model: type[BaseModel]) -> Schema:
    """Returns the keys that a task and the mappings in it must have."""
    inner = {key: keys for key, field in model.model_fields.items() if (keys := _required_in(field))}
    outer = [key for key, field in model.model_fields.items() if field.is_required()]
    return {**({"required": outer} if outer else {}), **({"properties": inner} if inner else {})}


def _required_in(field: FieldInfo) -> Schema:
    """Returns the required keys of a field's mapping; a block whose default is a component needs none."""
    if isinstance(field.default, Component):
        return {}
    members = get_args(field.annotation) if get_origin(field.annotation) is UnionType else (field.annotation,)
    for model in members:
        if isinstance(model, type) and issubclass(model, BaseModel) and not issubclass(model, Tokenizers):
            return _required(model)
    return {}
