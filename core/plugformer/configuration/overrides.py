"""Settings that change a task, as trees like a file's: `--set KEY=VALUE` arguments, Python dictionaries.

In a dictionary a component may be a class; the tree then has a name for it.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from plugformer.configuration.structure import block_of, kind_at
from plugformer.errors import ConfigurationError
from plugformer.registry import Registry
from plugformer.yaml_tree import (
    Key,
    KeyPath,
    MappingNode,
    Node,
    Origin,
    Problem,
    ScalarNode,
    SequenceNode,
    dotted,
    read_text,
    report,
)


def read_overrides(arguments: Iterable[str]) -> MappingNode:
    """Reads arguments such as `model.attention=gqa`, in any order; values are YAML.

    Shorter keys apply first, so that `model.attention=gqa` and `model.attention.kv_heads=2` combine.

    Raises:
        ConfigurationError: An argument is not KEY=VALUE, its value is not YAML, a key is given twice, or goes
            into a value that is not a mapping; all of them together.
    """
    settings: list[tuple[KeyPath, Node]] = []
    messages: list[str] = []
    for argument in arguments:
        try:
            settings.append(read_setting(argument, Origin.of_argument("--set", argument)))
        except ConfigurationError as error:
            messages.append(str(error))
    root = MappingNode({}, {}, Origin("--set"))
    problems: list[Problem] = []
    for path, node in sorted(settings, key=lambda setting: len(setting[0])):
        problems += _insert(root, path, node)
    if problems or messages:
        raise ConfigurationError("\n".join([*messages, *([report(problems)] if problems else [])]))
    return root


def read_setting(argument: str, origin: Origin) -> tuple[KeyPath, Node]:
    """Reads `KEY=VALUE`; returns the keys that lead to the value, and the value.

    Raises:
        ConfigurationError: The argument is not KEY=VALUE, or its value is not YAML.
    """
    key, equals, text = argument.partition("=")
    path = keys(key.strip())
    if not equals or "" in path:
        raise Problem(origin, (), "expected KEY=VALUE with a dotted key, such as model.attention=gqa").error
    return path, read_text(text, origin) or ScalarNode(None, origin)


def keys(dotted: str) -> KeyPath:
    """Returns the keys of `model.encoder.per_layer.0`; numbers are short, since Python refuses long ones."""
    return tuple(int(key) if key.isdecimal() and len(key) < 10 else key for key in dotted.split("."))


def nested(dotted: str, node: Node, origin: Origin) -> MappingNode:
    """Returns a tree with one value under keys such as `model.encoder.attention`, written at an origin."""
    *outer, last = keys(dotted)
    tree = MappingNode({last: node}, {last: origin}, origin)
    for key in reversed(outer):
        tree = MappingNode({key: tree}, {key: origin}, origin)
    return tree


def _insert(root: MappingNode, path: KeyPath, node: Node) -> list[Problem]:
    """Puts a value into the tree, with the mappings around it; the name of a component becomes a block."""
    inner = root
    for depth, key in enumerate(path[:-1], start=1):
        below = inner.items.get(key, MappingNode({}, {}, node.origin))
        child = block_of(below)
        if child is None:
            message = f"cannot be set: {dotted(path[:depth])} is given a value by {below.origin}"
            return [Problem(node.origin, path, message)]
        inner.items[key] = child
        inner.keys.setdefault(key, node.origin)
        inner = child
    if path[-1] in inner.items:
        return [Problem(node.origin, path, f"is set twice; also by {inner.items[path[-1]].origin}")]
    inner.items[path[-1]] = node
    inner.keys[path[-1]] = node.origin
    return []


Settings = Sequence[str] | Mapping[str, Any]
"""Changes of a task: `KEY=VALUE`, or a nested dictionary."""

Classes = dict[str, dict[str, type]]
"""Component classes by kind and name."""


def read_dictionary(value: Mapping[str, Any], name: str, registry: Registry) -> tuple[MappingNode, Registry]:
    """Returns a dictionary of settings as a tree, and the registry with the classes in it.

    A component may be a class, or a class with its options: `MyAttention`, `(MyAttention, {"heads": 2})` or
    `{"name": MyAttention, "heads": 2}`. Messages call the dictionary by `name`: `task["model"]["width"]`.

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
    """Adds a class under its name, or a longer one if another class has that; returns the name with owner."""
    named, name = classes.setdefault(str(kind_at(path)), {}), component.__name__.lstrip("_")
    while named.setdefault(name, component) is not component:
        name += "-"
    return f"session:{name}"
