"""The errors of pydantic in plain words: what was found, what was expected, which keys exist."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import AliasChoices, BaseModel, GetCoreSchemaHandler, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from plugformer.errors import nearest
from plugformer.problems import Key, KeyPath, Problem

_EXPECTED: dict[str, str] = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a mapping of keys to values",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "list_type": "a list",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "mapping_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "multiple_of": "a multiple of {multiple_of}",
    "none_required": "null",
    "parent_does_not_exist": "a path in an existing folder",
    "path_exists": "a path where there is nothing yet",
    "path_not_directory": "an existing folder",
    "path_not_file": "an existing file",
    "path_type": "a path",
    "sequence_str": "a list",
    "set_type": "a list",
    "string_pattern_mismatch": "text of the form {pattern}",
    "string_too_long": "text of at most {max_length} characters",
    "string_too_short": "text of at least {min_length} characters",
    "string_type": "text",
    "too_long": "at most {max_length} items",
    "too_short": "at least {min_length} items",
    "tuple_type": "a list",
}
_KEY = "[key]"  # how pydantic marks an error in a dictionary's key
_UNKNOWN_KEY = {"extra_forbidden", "invalid_key"}
_OF_FILES = {
    "parent_does_not_exist",
    "path_exists",
    "path_not_directory",
    "path_not_file",
    "path_not_socket",
}
"""Types of errors about what is, or is not, where a path leads."""

_OWN_WORDS = {"value_error", "assertion_error"}


@dataclass(frozen=True)
class InWords:
    """Says in words what a pattern asks for: `Annotated[str, Field(pattern=...), InWords(...)]`.

    Attributes:
        expected: Continues "expected ".
    """

    expected: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.custom_error_schema(
            handler(source), custom_error_type="in_words", custom_error_message=self.expected
        )


def explain(
    error: ValidationError, model: type[BaseModel], value: object, also: Collection[str] = ()
) -> list[Problem]:
    """Returns pydantic's errors as problems, without their origins.

    Args:
        error: What validation raised.
        model: The model that the value was validated with.
        value: The value as it was written, to which the problems' paths lead.
        also: Keys that may stand in the value's outermost mapping besides the model's.
    """
    grouped: dict[KeyPath, list[ErrorDetails]] = defaultdict(list)
    for detail in error.errors(include_url=False):
        grouped[_written_path(detail, value)].append(detail)
    return [
        problem
        for path, details in grouped.items()
        for problem in _problems(path, details, model, value, also if len(path) == 1 else ())
    ]


def refused_paths(error: ValidationError, value: Any) -> list[KeyPath]:
    """Returns where a validation error complains of what is, or is not, at a path of the file system."""
    details = error.errors(include_url=False)
    return [_written_path(each, value) for each in details if each["type"] in _OF_FILES]


def shown(value: object) -> str:
    """Returns a value as messages show it: short, and as a task file would spell it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple) and len(value) > 4:
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def model_at(model: type[BaseModel], path: KeyPath) -> type[BaseModel] | None:
    """Returns the model that checks the value at a path, or None where none does."""
    annotation: Any = model
    for key in path:
        current = _model_in(annotation)
        if current is not None:
            named = {key_of(name, field): field for name, field in current.model_fields.items()}
            annotation = named[key].annotation if key in named else None
        else:
            annotation = next(reversed(get_args(_container_in(annotation))), None)
    return _model_in(annotation)


def keys_of(model: type[BaseModel]) -> frozenset[str]:
    """Returns the keys that stand in a file for a model's fields."""
    return frozenset(key_of(name, field) for name, field in model.model_fields.items())


def key_of(name: str, field: FieldInfo) -> str:
    """Returns the key that stands in a file for a field of a model: its alias, if it has one."""
    alias = field.validation_alias
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
    return next((choice for choice in choices if isinstance(choice, str)), name)


def _problems(
    path: KeyPath, details: list[ErrorDetails], model: type[BaseModel], value: object, also: Collection[str]
) -> Iterable[Problem]:
    """Explains the errors at one place; those of a union's members become one."""
    kinds = {detail["type"] for detail in details}
    if "missing" in kinds:
        yield Problem(None, path, "is missing")
    elif kinds & _UNKNOWN_KEY:
        inner = model_at(model, path[:-1])
        known = sorted({*(() if inner is None else keys_of(inner)), *also})
        message = f"unknown key {path[-1]!r}{nearest(str(path[-1]), known)}"
        yield Problem(None, path, message, f"known: {', '.join(known) or 'none'}", at_key=True)
    elif details[0]["loc"][-1] == _KEY:
        yield Problem(None, path, _mismatch(details, path[-1], None, " as the key"), at_key=True)
    elif own := [detail for detail in details if detail["type"] in _OWN_WORDS]:
        for sentence in dict.fromkeys(str(detail["ctx"]["error"]) for detail in own):
            yield Problem(None, path, sentence)
    else:
        yield Problem(None, path, _mismatch(details, _value_at(value, path), model_at(model, path)))


def _mismatch(
    details: list[ErrorDetails], found: object, model: type[BaseModel] | None, place: str = ""
) -> str:
    expected = list(dict.fromkeys(_expected(detail, model) for detail in details))
    choices = re.findall(r"'([^']*)'", " ".join(expected))
    suggestion = nearest(found, choices) if isinstance(found, str) else ""
    return f"expected {' or '.join(expected)}{place}, found {shown(found)}{suggestion}"


def _expected(detail: ErrorDetails, model: type[BaseModel] | None) -> str:
    if (
        detail["type"] in ("model_type", "model_attributes_type")
        and model is not None
        and "name" in model.model_fields
    ):
        return "a component's name, or a mapping with its name and options"
    template = _EXPECTED.get(detail["type"])
    if template is None:
        return re.sub(r"^(Input|Value) should (be )?", "", detail["msg"])
    return template.format(**{key: _short(value) for key, value in detail.get("ctx", {}).items()})


def _short(value: object) -> str:
    """Returns a bound as people write it: 1, not 1.0."""
    return str(value).removesuffix(".0")


def _written_path(detail: ErrorDetails, value: Any) -> KeyPath:
    """Drops from an error's location what nobody wrote: members of unions, blocks made of short forms."""
    path: list[Key] = []
    location = detail["loc"]
    for position, key in enumerate(location):
        if _has(value, key):
            value = value[key]
            path.append(key)
        elif detail["type"] == "missing" and position == len(location) - 1:
            path.append(key)
    return tuple(path)


def _has(value: Any, key: Key) -> bool:
    """Returns whether a value has an item of that key or number."""
    if isinstance(value, dict):
        return key in value
    return isinstance(value, list | tuple) and isinstance(key, int) and key < len(value)


def _value_at(value: Any, path: KeyPath) -> object:
    for key in path:
        value = value[key] if _has(value, key) else None
    return value


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Returns the model in an annotation such as `Model | None` or `Annotated[Model, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if getattr(annotation, "__origin__", None) in (list, dict, tuple):
        return None
    return next((model for part in get_args(annotation) if (model := _model_in(part))), None)


def _container_in(annotation: Any) -> Any:
    """Returns the list or dictionary in an annotation such as `dict[int, Model] | None`."""
    if getattr(annotation, "__origin__", None) in (list, dict, tuple):
        return annotation
    return next((found for part in get_args(annotation) if (found := _container_in(part))), None)
