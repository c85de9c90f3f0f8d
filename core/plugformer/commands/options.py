"""A component's options as people read them: type and range in words, default, description."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plugformer.registry.options import options_model


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    Attributes:
        name: Its key in a task file.
        type: What it may be, such as `integer >= 1`.
        required: Whether it must be given.
        default: Its value otherwise.
        description: What it is for.
    """

    name: str
    type: str
    required: bool
    default: Any
    description: str


def describe_options(component: type) -> list[Option]:
    """Returns a component's options in the order of its constructor.

    Raises:
        RegistryError: They cannot be checked, because of how the constructor is annotated.
    """
    schema = options_model(component).model_json_schema()
    definitions = schema.get("$defs", {})
    required = schema.get("required", [])
    return [
        Option(
            name=name,
            type=in_words(field, definitions),
            required=name in required,
            default=field.get("default"),
            description=field.get("description", ""),
        )
        for name, field in schema["properties"].items()
    ]


def in_words(schema: Mapping[str, Any], definitions: Mapping[str, Any] | None = None) -> str:
    """Returns what a JSON Schema allows, in words.

    Args:
        schema: Of one value.
        definitions: What its references refer to.
    """
    definitions = definitions or {}
    if "$ref" in schema:
        return in_words(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        return " or ".join(in_words(member, definitions) for member in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(str(choice) for choice in schema["enum"])
    if "const" in schema:
        return str(schema["const"])
    kind = schema.get("type", "any value")
    if kind == "array":
        return _list_in_words(schema, definitions)
    far = {"maximum"} if schema.get("maximum", 0) >= _FAR else set()
    bounds = [f"{sign} {schema[key]}" for key, sign in _BOUNDS.items() if key in schema.keys() - far]
    return " ".join([_WORDS.get(kind, kind), ", ".join(bounds)]).rstrip()


def _list_in_words(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    if "prefixItems" not in schema:
        return f"list of {in_words(schema['items'], definitions)}" if "items" in schema else "list"
    members = [in_words(item, definitions) for item in schema["prefixItems"]]
    alike = len(set(members)) == 1
    return f"list of {len(members)}: {members[0] if alike else '; '.join(members)}"


_WORDS = {"string": "text", "object": "mapping", "null": "null", "boolean": "true | false"}
_FAR = 2**31 - 1
"""An upper bound that only computers care about."""

_BOUNDS = {
    "minimum": ">=",
    "exclusiveMinimum": ">",
    "maximum": "<=",
    "exclusiveMaximum": "<",
    "pattern": "matching",
}
