"""Settings that change a task: `--set KEY=VALUE`, dictionaries of Python, and the rules for merging them.

Each of them becomes a tree like that of a task file. A component's block with a name replaces the inherited
block, except settings of the core, so that no option of the old component reaches the new one; a block
without a name merges. Plain mappings merge, lists and single values replace. A key clears the inherited keys
that it excludes (`steps`, `epochs`), and a part of the whole model clears inherited settings of single stacks
and layers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
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


def read_changes(overrides: Changes, registry: Registry) -> tuple[list[MappingNode], Registry]:
    """Returns changes of a task as layers, the lowest first; see `read_dictionary`."""
    if isinstance(overrides, Mapping):
        tree, registry = read_dictionary(overrides, "overrides", registry)
        return [tree], registry
    trees = [change for change in overrides if isinstance(change, MappingNode)]
    return [*trees, read_overrides(change for change in overrides if isinstance(change, str))], registry


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


def merge_layers(layers: Iterable[MappingNode]) -> tuple[MappingNode, list[str]]:
    """Merges layers, the lowest first.

    Returns:
        The merged tree, whose nodes keep the origins of the layers that wrote them, and a notice for each
        setting that a later layer cleared.
    """
    first, *rest = layers
    merger = _Merger()
    for layer in rest:
        first = merger.mappings(first, layer, ())
    return first, merger.notices


class _Merger:
    """Merges mappings, and collects notices."""

    def __init__(self) -> None:
        self.notices: list[str] = []

    def merge(self, base: Node | None, over: Node, path: KeyPath) -> Node:
        model = model_at(Task, path)
        if base is None:
            return over
        if model is not None and issubclass(model, TokenizerSettings):
            return self._tokenizers(base, over, path)
        if model is not None and issubclass(model, Component):
            return self._component(base, over, path)
        if isinstance(base, MappingNode) and isinstance(over, MappingNode):
            return self.mappings(base, over, path)
        return over

    def mappings(self, base: MappingNode, over: MappingNode, path: KeyPath) -> MappingNode:
        for key, node in over.items.items():
            base = self._without_excluded(base, over, key, path)
            if names_all(node):
                base = self._without_specific(base, (*path, key), path, node)
        merged = MappingNode(dict(base.items), base.keys | over.keys, _outermost(base, over))
        for key, node in over.items.items():
            merged.items[key] = self.merge(base.items.get(key), node, (*path, key))
        return merged

    def _component(self, base: Node, over: Node, path: KeyPath) -> Node:
        below, block = block_of(base), block_of(over)
        if below is None or block is None:
            return over
        if names_all(over):
            below = _only(below, core_keys(model_at(Task, path)))
            if isinstance(over, ScalarNode) and not below.items:
                return over
        return self.mappings(below, block, path)

    def _tokenizers(self, base: Node, over: Node, path: KeyPath) -> Node:
        """Merges tokenizers; one for both sides, extended on one side, becomes one for each."""
        below = block_of(base)
        named = names_all(over) or (isinstance(over, MappingNode) and names_sides(over))
        if isinstance(over, MappingNode) and "run" in over.items and not named:
            return over  # the run says which ones
        if below is not None and "run" in below.items and named:
            base = below = _only(below, below.items.keys() - {"run"})
        if below is not None and isinstance(over, MappingNode) and names_sides(over):
            if not names_sides(below):
                both = _only(below, below.items.keys() - core_keys(TokenizerSettings))
                sides: dict[Key, Node] = {"source": both, "target": both}
                below = MappingNode(sides, dict.fromkeys(sides, below.origin), below.origin)
            return self.mappings(below, over, path)
        return self._component(base, over, path)

    def _without_excluded(self, base: MappingNode, over: MappingNode, key: Key, path: KeyPath) -> MappingNode:
        """Drops inherited keys that a newly given one excludes."""
        model = model_at(Task, path)
        given = over.items[key]
        if model is None or not issubclass(model, Settings) or given == ScalarNode(None, given.origin):
            return base
        partners = {other for pair in model.exclusive if key in pair for other in pair if other != key}
        return _only(base, base.items.keys() - partners)

    def _without_specific(self, base: MappingNode, general: KeyPath, path: KeyPath, by: Node) -> MappingNode:
        """Drops the inherited settings of stacks and layers that a setting further out replaces."""
        items = dict(base.items)
        for key, child in base.items.items():
            if not isinstance(child, MappingNode):
                continue
            model = model_at(Task, (*path, key))
            if model is not None and issubclass(model, Overrides) and general[-1] not in model.independent:
                child = self._cleared(child, general, (*path, key), by)
                items[key] = self._without_specific(child, general, (*path, key), by)
            elif key == "per_layer":
                items[key] = self._without_specific(child, general, (*path, key), by)
        return replace(base, items=items)

    def _cleared(self, child: MappingNode, general: KeyPath, path: KeyPath, by: Node) -> MappingNode:
        old = child.items.get(general[-1])
        if old is None:
            return child
        here = dotted((*path, general[-1]))
        self.notices.append(f"{by.origin}  {dotted(general)}: clears {here}, written at {old.origin}")
        return _only(child, child.items.keys() - {general[-1]})


def names_all(node: Node) -> bool:
    """Returns whether the node names a component (or a number of layers), rather than adding an option."""
    return not isinstance(node, MappingNode) or "name" in node.items


def _outermost(base: MappingNode, over: MappingNode) -> Origin:
    """Returns the origin of a merged mapping: the last file that wrote it, and not --set."""
    return base.origin if over.origin.line is None and base.origin != DEFAULT else over.origin


def _only(mapping: MappingNode, keys: Iterable[Key]) -> MappingNode:
    kept = set(keys)
    return replace(mapping, items={key: item for key, item in mapping.items.items() if key in kept})
