"""The keys of a task file, from the settings' own models."""

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from generators.markdown import code, prose, table
from plugformer.configuration.structure import kind_at
from plugformer.configuration.task import Component, Task, TokenizerSettings
from plugformer.registry.options import model_at
from plugformer_cli.info import in_words

_PLACES: tuple[tuple[str, ...], ...] = (
    (),
    ("data",),
    ("data", "split"),
    ("data", "streaming"),
    ("data", "length"),
    ("tokenizer",),
    ("model",),
    ("model", "embeddings"),
    ("model", "encoder"),
    ("model", "encoder", "per_layer"),
    ("model", "decoder"),
    ("model", "decoder", "cross_attention"),
    ("training",),
    ("training", "early_stopping"),
    ("training", "optimizer"),
    ("training", "optimizer", "groups"),
    ("training", "callbacks"),
    ("decoding",),
    ("evaluation",),
    ("evaluation", "metrics"),
)
_MANY = ("per_layer", "metrics", "callbacks", "groups")
"""Mappings by number."""


def task_keys() -> str:
    """Returns a section for each mapping of a task file, its keys in the order of the settings."""
    return "\n\n".join(_section(place) for place in _PLACES)


def _section(place: tuple[str, ...]) -> str:
    path: tuple[str | int, ...] = (*place, 0) if place and place[-1] in _MANY else place
    model = model_at(Task, path)
    if model is None:
        raise ValueError(f"a task has no mapping at {place}")
    heading = ".".join(place) + (".NUMBER" if path != place else "") or "The outermost mapping"
    rows = [_extends()] if not place else []
    rows += [_row((*path, key), key, field, model) for key, field in _fields(model)]
    return "\n\n".join([f"## {heading}", prose(model.__doc__).partition("\n\n")[0], _table(rows)])


def _table(rows: list[tuple[str, str, str, str]]) -> str:
    return table(("key", "value", "default", "meaning"), rows)


def _fields(model: type[BaseModel]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields each key with its JSON Schema, the definitions that it refers to, and whether it is required."""
    schema = model.model_json_schema()
    definitions, required = schema.get("$defs", {}), schema.get("required", [])
    for key, field in schema["properties"].items():
        yield key, {**field, "definitions": definitions, "required": key in required}


def _row(
    path: tuple[str | int, ...], key: str, field: dict[str, Any], parent: type[BaseModel]
) -> tuple[str, str, str, str]:
    inner = model_at(Task, path)
    default = (
        "required" if field["required"] and not issubclass(parent, TokenizerSettings) else _default(field)
    )
    if key == "name" and issubclass(parent, Component):
        return code(key), "text", default, "A component's name, or a mapping with the name and its options."
    return code(key), _value(path, field, inner), default, field.get("description", "") or _meaning(inner)


def _value(path: tuple[str | int, ...], field: dict[str, Any], inner: type[BaseModel] | None) -> str:
    if inner is not None and issubclass(inner, Component | TokenizerSettings):
        return f"{kind_at(path)}: name, or mapping"
    if path[-1] in ("metrics", "callbacks"):
        return f"list of {kind_at(path)}: name, or mapping"
    if path[-1] == "groups":
        return "list of mappings"
    if inner is not None or path[-1] == "per_layer":
        return "mapping"
    return in_words(field, field["definitions"]).replace(" | ", ", ").removesuffix(" or null")


def _default(field: dict[str, Any]) -> str:
    value = field.get("default")
    if isinstance(value, dict):  # a component, or a mapping whose keys have a table of their own
        given = {key: each for key, each in value.items() if each not in (None, [])}
        written = [f"{key}: {each}" for key, each in given.items() if not isinstance(each, dict)]
        return (
            code(f"{{{', '.join(written)}}}" if len(value) > 1 else value["name"]) if "name" in value else ""
        )
    return "" if value in (None, "", []) else code(json.dumps(value).strip('"'))


def _meaning(inner: type[BaseModel] | None) -> str:
    return "" if inner is None or issubclass(inner, Component) else prose(inner.__doc__).partition("\n\n")[0]


def _extends() -> tuple[str, str, str, str]:
    return code("extends"), "text", "", "A task's name or file that this one changes."
