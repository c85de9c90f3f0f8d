"""A component's options: the keyword-only parameters of its constructor, as a pydantic model."""

import inspect
from collections import abc
from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

from pydantic import BaseModel, ConfigDict, Strict, ValidationError, create_model
from pydantic.fields import FieldInfo

from plugformer.errors import ConfigurationError, RegistryError
from plugformer.explanations import explain

_CONFIG = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), allow_inf_nan=False)
_SCALARS = (bool, int, float, str)
_CONTAINERS = (list, tuple, set, frozenset, abc.Sequence)
_MODELS: WeakKeyDictionary[type, type[BaseModel]] = WeakKeyDictionary()


def options_model(component: type) -> type[BaseModel]:
    """Returns the model of a component's options.

    Its fields are the constructor's keyword-only parameters, with their annotations (bounds as
    `Annotated[int, Field(ge=1)]`) and defaults. Numbers, booleans and text are never converted, except that a
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
    """Returns the given options as the constructor expects them, without those that keep its defaults.

    Args:
        component: The component's class.
        options: The options that the user gave.
        what: The name of the component in messages.

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

    Raises:
        RegistryError: They would change when the file is read: a validator changes its own result.
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
    descriptions: dict[str, str] = {}
    name = None
    _, _, section = docstring.partition("\nArgs:\n")
    for line in section.splitlines():
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent == 0:
            break
        head, colon, text = line.strip().partition(":")
        if indent == 4 and colon:
            name = head.partition(" ")[0]
            descriptions[name] = text.strip()
        elif name is not None and line.strip():
            descriptions[name] += f" {line.strip()}"
    return descriptions
