"""Checks with pydantic: the options of a component as a model, and pydantic's errors as problems.

The options are the keyword-only parameters of the component's constructor.
"""

import inspect
import json
import re
from collections import abc, defaultdict
from collections.abc import Collection, Mapping
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

from pydantic import BaseModel, ConfigDict, Strict, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from plugformer.errors import ConfigurationError, RegistryError, nearest
from plugformer.yaml_tree import KeyPath, Problem, Tree

_ABSENT = object()
_CONFIG = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), allow_inf_nan=False)
_SCALARS = (bool, int, float, str)
_CONTAINERS = (list, tuple, set, frozenset, abc.Sequence)
_MODELS: WeakKeyDictionary[type, type[BaseModel]] = WeakKeyDictionary()


def options_model(component: type) -> type[BaseModel]:
    """Returns the model of a component's options.

    Its fields are the constructor's keyword-only parameters with their annotations, such as
    `Annotated[int, Field(ge=1)]`, and defaults. Numbers, booleans and text are never converted, except that a
    mapping's keys may be text; a `pathlib.Path` is written as text, a tuple as a list. An alias is the
    option's key in a file. Descriptions come from `Field(description=...)` or `Args:` in the docstring.

    Raises:
        RegistryError: A parameter has no annotation, or one that pydantic cannot check.
    """
    if component not in _MODELS:
        try:
            _MODELS[component] = create_model(component.__name__, __config__=_CONFIG, **_fields(component))
        except Exception as error:  # pydantic has many
            name = f"{component.__module__}.{component.__name__}"
            raise RegistryError(f"{name}: its options cannot be checked: {error}") from error
    return _MODELS[component]


def checked_options(component: type, options: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Returns the given options as the constructor expects them; messages call the component by `what`.

    Raises:
        ConfigurationError: An option is unknown, missing, of the wrong type or out of range; all together.
    """
    model = options_model(component)
    try:
        checked = model.model_validate(dict(options))
    except ValidationError as error:
        problems = [str(problem) for problem in explain(error, model, dict(options))]
        raise ConfigurationError("\n".join(f"{what}: option {problem}" for problem in problems)) from error
    return {name: getattr(checked, name) for name in model.model_fields if name in checked.model_fields_set}


def written_options(options: BaseModel) -> dict[str, Any]:
    """Returns checked options as a task file has them: complete, with aliases as keys.

    A validator that changes its own result is refused.
    """
    written: dict[str, Any] = options.model_dump(mode="json", by_alias=True, round_trip=True, warnings=False)
    if type(options).model_validate(written) != options:
        raise RegistryError(f"{type(options).__name__}: options {written} change when they are read again")
    return written


def _fields(component: type) -> dict[str, Any]:
    """Returns annotation and default of each option."""
    constructor: Any = inspect.getattr_static(component, "__init__")
    hints = get_type_hints(constructor, include_extras=True)
    descriptions = _descriptions(inspect.getdoc(component) or "")
    fields = {}
    for name, parameter in inspect.signature(constructor).parameters.items():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            continue
        if name not in hints:
            raise TypeError(f"option {name!r} has no type annotation")
        if hasattr(BaseModel, name):
            raise TypeError(f"option {name!r} has a name that pydantic needs; rename it")
        annotation = _strict(hints[name])
        if name in descriptions and FieldInfo.from_annotation(annotation).description is None:
            annotation = Annotated[annotation, FieldInfo(description=descriptions[name])]
        fields[name] = annotation, ... if parameter.default is parameter.empty else parameter.default
    return fields


def _strict(annotation: Any) -> Any:
    """Makes the scalars in an annotation strict, and leaves containers and paths to accept what YAML has."""
    if annotation in _SCALARS:
        return Annotated[annotation, Strict()]
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return Annotated[(_strict(parts[0]), *parts[1:])]
    if origin in (Union, UnionType):
        return Union[tuple(_strict(part) for part in parts)]  # noqa: UP007 (the members are not known here)
    if origin in (dict, abc.Mapping):  # the keys of a saved run are text
        return origin[parts[0], _strict(parts[1])]
    if origin in _CONTAINERS:
        return origin[tuple(_strict(part) for part in parts)]
    return annotation


def _descriptions(docstring: str) -> dict[str, str]:
    """Returns the descriptions of arguments under `Args:` of a Google docstring."""
    section = docstring.partition("\nArgs:\n")[2].partition("\n\n")[0]
    arguments = re.findall(r"^    (\w+)[^:\n]*:(.*(?:\n     .*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in arguments}


def explain(
    error: ValidationError, model: type[BaseModel], value: object, also: Collection[str] = ()
) -> list[Problem]:
    """Returns the errors of a model about a value as problems without origins; those of a union become one.

    `also` are further keys that the outermost mapping may have.
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
    messages = list(dict.fromkeys(re.sub("^Input should be |^Value error, ", "", d["msg"]) for d in details))
    text = re.sub(r"a valid dictionary( or instance of \w+)?", "a mapping", " or ".join(messages))
    if kinds & {"value_error", "missing"}:
        return Problem(None, path, "is missing" if "missing" in kinds else text)
    if details[0]["msg"].startswith("Input should be "):
        text = f"should be {text}"
    at_key = details[0]["loc"][-1:] == ("[key]",)
    written: object = path[-1] if at_key else Tree(value, {}).get(path)
    suggestion = nearest(written, re.findall(r"'([^']*)'", text)) if isinstance(written, str) else ""
    return Problem(None, path, f"{text}, found {shown(written)}{suggestion}", at_key=at_key)


def shown(value: object) -> str:
    """Returns a value as messages show it: short, and as a task file would spell it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, dict | list) and len(value) > 4:
        return "a mapping" if isinstance(value, dict) else "a list"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def model_at(model: type[BaseModel], path: KeyPath) -> type[BaseModel] | None:
    """Returns the model that checks the value at a path, or None if there is none."""
    annotation: Any = model
    for key in path:
        if (current := _part(annotation, BaseModel)) is not None:
            fields = {field.alias or name: field for name, field in current.model_fields.items()}
            annotation = fields[key].annotation if key in fields else None
        else:
            annotation = next(reversed(get_args(_part(annotation, (list, dict, tuple)))), None)
    return cast("type[BaseModel] | None", _part(annotation, BaseModel))


def keys_of(model: type[BaseModel]) -> frozenset[str]:
    """Returns the keys of a model's fields in a file: aliases, or else names."""
    return frozenset(field.alias or name for name, field in model.model_fields.items())


def _written_path(detail: ErrorDetails, value: Any) -> KeyPath:
    """Returns an error's location without the parts that nobody wrote, such as members of unions."""
    path: KeyPath = ()
    location, written = detail["loc"] or ("",), Tree(value, {})
    for depth, key in enumerate(location, start=1):
        is_missing = detail["type"] == "missing" and depth == len(location)
        if is_missing or written.get((*path, key), _ABSENT) is not _ABSENT:
            path = (*path, key)
    return path


def _part(annotation: Any, kinds: Any) -> Any:
    """Returns the model or container in an annotation such as `Annotated[dict[int, Model], ...] | None`."""
    origin = get_origin(annotation)
    kind = annotation if origin is None else origin
    if isinstance(kind, type) and issubclass(kind, kinds):
        return annotation
    inner = () if origin in (list, dict, tuple) else get_args(annotation)
    return next((part for member in inner if (part := _part(member, kinds)) is not None), None)
