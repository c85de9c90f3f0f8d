"""Settings from Python code: a dictionary becomes a tree like that of a file, and a class becomes a name."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plugformer.configuration.blocks import kind_at
from plugformer.configuration.overrides import read_overrides
from plugformer.errors import ConfigurationError
from plugformer.problems import Key, KeyPath, Origin, Problem
from plugformer.registry import Registry
from plugformer.yaml_tree import MappingNode, Node, ScalarNode, SequenceNode

Settings = Sequence[str] | Mapping[str, Any]
"""Changes of a task: `KEY=VALUE`, or a nested dictionary."""

Classes = dict[str, dict[str, type]]
"""Component classes by kind and name."""


def read_dictionary(value: Mapping[str, Any], name: str, registry: Registry) -> tuple[MappingNode, Registry]:
    """Reads settings that are a dictionary.

    A component may be a class, or a class with its options: `MyAttention`, `(MyAttention, {"heads": 2})` or
    `{"name": MyAttention, "heads": 2}`.

    Args:
        value: The settings.
        name: The name of the argument in messages: `task["model"]["width"]`.
        registry: The components that names refer to.

    Returns:
        The tree, and the registry with the classes.

    Raises:
        ConfigurationError: A key or a value is something that a task file cannot contain.
        RegistryError: Two classes of one kind have the same name.
    """
    classes: Classes = {}
    tree = _node(value, name, (), classes)
    if not isinstance(tree, MappingNode):
        raise ConfigurationError(f"{name}: expected a dictionary, found {value!r}")
    return tree, registry.with_components(classes) if classes else registry


def read_changes(overrides: Settings, registry: Registry) -> tuple[MappingNode, Registry]:
    """Reads changes of a task, as `KEY=VALUE` or as a nested dictionary; see `read_dictionary`."""
    if isinstance(overrides, Mapping):
        return read_dictionary(overrides, "overrides", registry)
    return read_overrides(overrides), registry


def _node(value: Any, place: str, path: KeyPath, classes: Classes) -> Node:
    origin = Origin(place, folder=Path.cwd())
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], type):
        value = {"name": value[0], **value[1]}
    if isinstance(value, type):
        try:
            return ScalarNode(_registered(value, path, classes), origin)
        except StopIteration:
            raise Problem(origin, (), f"{value!r} is a class, and no component belongs here").error from None
    if isinstance(value, Path):
        return ScalarNode(str(value), origin)
    if value is None or isinstance(value, str | bool | int | float):
        return ScalarNode(value, origin)
    if isinstance(value, Mapping):
        items: dict[Key, Node] = {}
        for key, item in value.items():
            if isinstance(key, bool) or not isinstance(key, str | int):
                raise Problem(origin, (), f"a key must be text or a whole number, found {key!r}").error
            items[key] = _node(item, f"{place}[{key!r}]", (*path, key), classes)
        return MappingNode(items, {key: node.origin for key, node in items.items()}, origin)
    if isinstance(value, list | tuple):
        nodes = (_node(item, f"{place}[{at}]", (*path, at), classes) for at, item in enumerate(value))
        return SequenceNode(tuple(nodes), origin)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # a scalar of NumPy or PyTorch
        return _node(value.item(), place, path, classes)
    expected = "expected text, a number, a boolean, None, a list, a dictionary or a component class"
    raise Problem(origin, (), f"{expected}; found {value!r}").error


def _registered(component: type, path: KeyPath, classes: Classes) -> str:
    """Keeps a class under its own name, or a similar one if another class has it; returns what selects it."""
    named, name = classes.setdefault(str(kind_at(path)), {}), component.__name__.lstrip("_")
    while named.setdefault(name, component) is not component:
        name += "-"
    return f"session:{name}"
