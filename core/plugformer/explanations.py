"""The errors of pydantic as problems: with the path that the user wrote, the value, and the known keys."""

import re
from collections import defaultdict
from collections.abc import Collection
from typing import Any, get_args, get_origin

from pydantic import AliasChoices, BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from plugformer.errors import nearest
from plugformer.problems import Key, KeyPath, Problem


def explain(
    error: ValidationError, model: type[BaseModel], value: object, also: Collection[str] = ()
) -> list[Problem]:
    """Returns pydantic's errors as problems, without their origins; those of a union's members become one.

    Args:
        error: The error of the validation.
        model: The model that the value was validated with.
        value: The value as it was written, to which the problems' paths lead.
        also: Keys that may stand in the value's outermost mapping besides the model's.
    """
    grouped: dict[KeyPath, list[ErrorDetails]] = defaultdict(list)
    for detail in error.errors(include_url=False):
        grouped[_written_path(detail, value)].append(detail)
    return [_problem(path, details, model, value, also) for path, details in grouped.items()]


def _problem(
    path: KeyPath, details: list[ErrorDetails], model: type[BaseModel], value: Any, also: Collection[str]
) -> Problem:
    kinds = {detail["type"] for detail in details}
    if kinds & {"extra_forbidden", "invalid_key"}:
        inner = model_at(model, path[:-1])
        known = sorted({*(keys_of(inner) if inner else ()), *(also if len(path) == 1 else ())})
        message = f"unknown key {path[-1]!r}{nearest(str(path[-1]), known)}"
        return Problem(None, path, message, f"known: {', '.join(known) or 'none'}", at_key=True)
    at_key = details[0]["loc"][-1:] == ("[key]",)
    for key in path if not at_key else ():
        value = value[key] if _has(value, key) else None
    messages = list(dict.fromkeys(re.sub("^Input should be |^Value error, ", "", d["msg"]) for d in details))
    text = re.sub(r"a valid dictionary( or instance of \w+)?", "a mapping", " or ".join(messages))
    if kinds & {"value_error", "missing"}:
        return Problem(None, path, "is missing" if "missing" in kinds else text)
    if details[0]["msg"].startswith("Input should be "):
        text = f"should be {text}"
    written: object = path[-1] if at_key else value
    choices = re.findall(r"'([^']*)'", text)
    suggestion = nearest(written, choices) if isinstance(written, str) else ""
    return Problem(None, path, f"{text}, found {shown(written)}{suggestion}", at_key=at_key)


def shown(value: object) -> str:
    """Returns a value as messages show it: short, and as a task file would spell it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict | list) and len(value) > 4:
        return "a mapping" if isinstance(value, dict) else "a list"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def model_at(model: type[BaseModel], path: KeyPath) -> type[BaseModel] | None:
    """Returns the model that checks the value at a path, or None if there is none."""
    annotation: Any = model
    for key in path:
        current = _part(annotation, BaseModel)
        if current is not None:
            fields = {key_of(name, field): field for name, field in current.model_fields.items()}
            annotation = fields[key].annotation if key in fields else None
        else:
            annotation = next(reversed(get_args(_part(annotation, (list, dict, tuple)))), None)
    found: type[BaseModel] | None = _part(annotation, BaseModel)
    return found


def keys_of(model: type[BaseModel]) -> frozenset[str]:
    """Returns the keys of a model's fields in a file."""
    return frozenset(key_of(name, field) for name, field in model.model_fields.items())


def key_of(name: str, field: FieldInfo) -> str:
    """Returns the key of a model's field in a file: its alias, if it has one."""
    alias = field.validation_alias
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
    return next((choice for choice in choices if isinstance(choice, str)), name)


def _written_path(detail: ErrorDetails, value: Any) -> KeyPath:
    """Drops from an error's location what nobody wrote: members of unions, blocks made of short forms."""
    path: list[Key] = []
    *_, last = location = detail["loc"] or ("",)
    for key in location:
        if _has(value, key):
            value = value[key]
            path.append(key)
        elif detail["type"] == "missing" and key is last:
            path.append(key)
    return tuple(path)


def _has(value: Any, key: Key) -> bool:
    """Returns whether a value has an item of that key or number."""
    if isinstance(value, dict):
        return key in value
    return isinstance(value, list | tuple) and isinstance(key, int) and key < len(value)


def _part(annotation: Any, kinds: Any) -> Any:
    """Returns the model or container in an annotation such as `Annotated[dict[int, Model], ...] | None`."""
    origin = get_origin(annotation)
    kind = annotation if origin is None else origin
    if isinstance(kind, type) and issubclass(kind, kinds):
        return annotation
    inner = () if origin in (list, dict, tuple) else get_args(annotation)
    return next((part for each in inner if (part := _part(each, kinds)) is not None), None)
