"""Settings that change a task: `--set KEY=VALUE`, dictionaries of Python, and the rules for merging them.

A component's block with a name replaces the inherited block, except settings of the core, so that no option
of the old component reaches the new one; a block without a name merges. Plain mappings merge, lists and
single values replace. A key clears the inherited keys that it excludes (`steps`, `epochs`), and a part of the
whole model clears inherited settings of single stacks and layers. A number is the key of an item of a list.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

from plugformer.configuration.structure import DEFAULT, block_of, core_keys, kind_at, names_sides
from plugformer.configuration.task import Component, Overrides, Settings, Task, TokenizerSettings
from plugformer.errors import ConfigurationError
from plugformer.registry import Registry
from plugformer.registry.options import model_at
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
    plain,
    read_text,
)


def read_overrides(arguments: Iterable[str]) -> MappingNode:
    """Reads arguments such as `model.attention=gqa`, in any order; values are YAML.

    Shorter keys apply first, so that `model.attention=gqa` and `model.attention.kv_heads=2` combine.
    """
    settings = [read_setting(argument, Origin.of_argument("--set", argument)) for argument in arguments]
    root = MappingNode({}, {}, Origin("--set"))
    for path, node in sorted(settings, key=lambda setting: len(setting[0])):
        inner = root
        for depth, key in enumerate(path[:-1], start=1):
            below = inner.items.get(key, MappingNode({}, {}, node.origin))
            block = block_of(below)
            if block is None:
                message = f"cannot be set: {dotted(path[:depth])} is given a value by {below.origin}"
                raise Problem(node.origin, path, message).error
            inner.items[key] = block
            inner.keys.setdefault(key, node.origin)
            inner = block
        if path[-1] in inner.items:
            other = inner.items[path[-1]].origin
            raise Problem(node.origin, path, f"is set twice; also by {other}").error
        inner.items[path[-1]], inner.keys[path[-1]] = node, node.origin
    return root


def read_setting(argument: str, origin: Origin) -> tuple[KeyPath, Node]:
    """Reads `KEY=VALUE`; returns the keys that lead to the value, and the value, which is YAML."""
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


Changes = Sequence[str | MappingNode] | Mapping[str, Any]
"""Changes of a task: `KEY=VALUE`, trees like those of task files, or a nested dictionary."""

Classes = dict[str, dict[str, type]]
"""Component classes by kind and name."""


def read_dictionary(value: Mapping[str, Any], name: str, registry: Registry) -> tuple[MappingNode, Registry]:
    """Returns a dictionary of settings as a tree, and the registry with the classes in it.

    A component may be a class, or a class with its options: `MyAttention`, `(MyAttention, {"heads": 2})` or
    `{"name": MyAttention, "heads": 2}`. Messages call the dictionary by `name`: `task["model"]["width"]`.

    Raises:
        ConfigurationError: A key or a value is something that a task file cannot contain.
        RegistryError: The name of a class cannot be that of a component.
    """
    classes: Classes = {}
    tree = _node(value, name, (), classes)
    if not isinstance(tree, MappingNode):
        raise ConfigurationError(f"{name}: expected a dictionary, found {value!r}")
    return tree, registry.with_components(classes) if classes else registry


def _node(value: Any, place: str, path: KeyPath, classes: Classes) -> Node:
    origin = Origin(place, folder=Path.cwd())
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], type):
        value = {"name": value[0], **value[1]}
    if isinstance(value, type):
        try:
            kind = kind_at(path)
        except StopIteration:
            raise Problem(origin, (), f"{value!r} is a class, and no component belongs here").error from None
        named, name = classes.setdefault(kind, {}), value.__name__.lstrip("_")
        while named.setdefault(name, value) is not value:  # another class has the name
            name += "-"
        return ScalarNode(f"session:{name}", origin)
    if value is None or isinstance(value, str | bool | int | float | Path):
        return ScalarNode(str(value) if isinstance(value, Path) else value, origin)
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


def merge_layers(layers: Iterable[MappingNode]) -> tuple[MappingNode, list[str]]:
    """Merges layers, the lowest first; returns a notice for each setting that a later layer cleared.

    The nodes of the merged tree keep the origins of the layers that wrote them.
    """
    notices: list[str] = []
    return reduce(lambda base, over: _mappings(base, over, (), notices), layers), notices


def _merged(base: Node | None, over: Node, path: KeyPath, notices: list[str]) -> Node:
    model = model_at(Task, path)
    if isinstance(base, SequenceNode) and isinstance(over, MappingNode) and _are_numbers(over.items):
        return _items(base, over, path, notices)
    below, block = None if base is None else block_of(base), block_of(over)
    if below is None or block is None:
        return over
    if model is None or not issubclass(model, Component | TokenizerSettings):
        both = isinstance(base, MappingNode) and isinstance(over, MappingNode)
        return _mappings(below, block, path, notices) if both else over
    core = core_keys(model)
    if issubclass(model, TokenizerSettings):
        named = names_all(over) or names_sides(over)
        if "run" in block.items and not named:
            return over  # the run says which ones
        if named:
            below = _only(below, below.items.keys() - {"run"})
        if names_sides(over):
            if not names_sides(below):  # one for both sides becomes one for each
                side = _only(below, below.items.keys() - core)
                sides: dict[Key, Node] = {"source": side, "target": side}
                below = MappingNode(sides, dict.fromkeys(sides, below.origin), below.origin)
            return _mappings(below, block, path, notices)
    if names_all(over):
        below = _only(below, core)
        if isinstance(over, ScalarNode) and not below.items:
            return over
    return _mappings(below, block, path, notices)


def _are_numbers(keys: Collection[Key]) -> bool:
    return bool(keys) and all(isinstance(key, int) for key in keys)


def _items(base: SequenceNode, over: MappingNode, path: KeyPath, notices: list[str]) -> SequenceNode:
    """Returns a list with changes of single items, by their numbers from 0."""
    items = list(base.items)
    for key, node in over.items.items():
        place = int(key)
        if not 0 <= place < len(items):
            message = f"there is no item {place} in the list of {len(items)} written at {base.origin}"
            hint = "items count from 0; to add one, write the whole list"
            raise Problem(over.keys[key], (*path, key), message, hint, at_key=True).error
        items[place] = _merged(items[place], node, (*path, key), notices)
    return replace(base, items=tuple(items))


def _mappings(base: MappingNode, over: MappingNode, path: KeyPath, notices: list[str]) -> MappingNode:
    model = model_at(Task, path)
    for key, node in over.items.items():
        if model is not None and issubclass(model, Settings) and plain(node) is not None:
            excluded = {other for pair in model.exclusive if key in pair for other in pair if other != key}
            base = _only(base, base.items.keys() - excluded)
        if names_all(node):
            base = _without_specific(base, (*path, key), path, node, notices)
    # The origin is the last file that wrote the mapping, and not --set.
    outer = base if over.origin.line is None and base.origin != DEFAULT else over
    merged = MappingNode(dict(base.items), base.keys | over.keys, outer.origin)
    for key, node in over.items.items():
        merged.items[key] = _merged(base.items.get(key), node, (*path, key), notices)
    return merged


def _without_specific(
    base: MappingNode, general: KeyPath, path: KeyPath, by: Node, notices: list[str]
) -> MappingNode:
    """Drops the inherited settings of stacks and layers that a setting further out replaces."""
    items, last = dict(base.items), general[-1]
    for key, child in base.items.items():
        model = model_at(Task, (*path, key))
        overrides = model is not None and issubclass(model, Overrides) and last not in model.independent
        if isinstance(child, MappingNode) and (overrides or key == "per_layer"):
            if overrides and last in child.items:
                here, old = dotted((*path, key, last)), child.items[last].origin
                notices.append(f"{by.origin}  {dotted(general)}: clears {here}, written at {old}")
                child = _only(child, child.items.keys() - {last})
            items[key] = _without_specific(child, general, (*path, key), by, notices)
    return replace(base, items=items)


def names_all(node: Node) -> bool:
    """Returns whether the node names a component (or a number of layers), rather than adding an option."""
    return not isinstance(node, MappingNode) or "name" in node.items


def _only(mapping: MappingNode, keys: Iterable[Key]) -> MappingNode:
    kept = set(keys)
    return replace(mapping, items={key: item for key, item in mapping.items.items() if key in kept})
