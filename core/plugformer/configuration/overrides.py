"""Layers of a task: the rule for merging them, `--set KEY=VALUE`, and dictionaries of Python.

The rule: mappings merge key by key, any other value replaces the old one, and so does another component, with
all its options, or another choice (`steps` for `epochs`). A number is the key of an item of a list.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from plugformer.configuration.structure import kind_at
from plugformer.configuration.task import (
    Component,
    CrossAttention,
    LayerOverrides,
    Settings,
    Task,
    TokenizerSettings,
)
from plugformer.errors import ConfigurationError
from plugformer.registry import Kind, Registry
from plugformer.registry.options import model_at
from plugformer.yaml_reader import read_text
from plugformer.yaml_tree import EMPTY, KeyPath, Origin, Places, Problem, Tree, dotted, placed, report


def read_overrides(arguments: Iterable[str]) -> Tree:
    """Reads arguments such as `model.attention=gqa`, in any order; values are YAML.

    Shorter keys apply first, so that `model.attention=gqa` and `model.attention.kv_heads=2` combine.
    """
    settings: dict[KeyPath, Tree] = {}
    for argument in map(str, arguments):
        origin = Origin.of_argument("--set", argument)
        path, tree = read_setting(argument, origin)
        if path in settings:
            message = f"is set twice; also by {settings[path].origin(())}"
            raise Problem(origin, path, message).error
        settings[path] = tree
    in_order = sorted(settings, key=lambda path: (len(path), path[-1] != "name"))
    tree = merge_layers([EMPTY, *(settings[path].under(path) for path in in_order)])
    for path, setting in settings.items():
        if setting.value is not None and tree.get(path, _LOST) is _LOST:  # no order decides
            message = "has no effect beside another --set; keep one of them"
            raise Problem(setting.origin(()), path, message).error
    return tree


def read_setting(argument: str, origin: Origin) -> tuple[KeyPath, Tree]:
    """Reads `KEY=VALUE`; returns the keys that lead to the value, and the value, which is YAML."""
    key, equals, text = argument.partition("=")
    path = setting_keys(key.strip())
    if not equals or "" in path:
        raise Problem(origin, (), "expected KEY=VALUE with a dotted key, such as model.attention=gqa").error
    if (tree := read_text(text, origin)) is None:  # such as $STEPS, if it is not set
        raise Problem(origin, path, f"has no value; to have none, write {dotted(path)}=null").error
    return path, tree


def setting_keys(dotted: str) -> KeyPath:
    """Returns the keys of `model.encoder.per_layer.0`; numbers are short, since Python refuses long ones."""
    return tuple(int(key) if key.isdecimal() and len(key) < 10 else key for key in dotted.split("."))


Change = str | Mapping[str, Any]
"""A change of a task: `KEY=VALUE`, or a nested dictionary."""

Changes = Change | Sequence[Change | Tree]
"""Changes of a task, or one; also trees like those of task files."""

Classes = dict[str, dict[str, type]]
"""Component classes by kind and name."""


def read_changes(changes: Changes, registry: Registry) -> tuple[list[Tree], Registry]:
    """Returns changes as trees of which the last wins, and the registry with the classes in them.

    All `KEY=VALUE` are one tree, the last.
    """
    trees: list[Tree] = []
    settings: list[str] = []
    for change in [changes] if isinstance(changes, str | Mapping) else changes:
        if isinstance(change, Tree):
            trees.append(change)
        elif isinstance(change, Mapping):
            tree, registry = read_dictionary(change, "overrides", registry)
            trees.append(tree)
        else:
            settings.append(change)
    return [*trees, read_overrides(settings)], registry


def read_dictionary(value: Mapping[str, Any], name: str, registry: Registry) -> tuple[Tree, Registry]:
    """Returns a dictionary of settings as a tree, and the registry with the classes in it.

    A component may be a class, or a class with its options: `MyAttention`, `(MyAttention, {"heads": 2})` or
    `{"name": MyAttention, "heads": 2}`. Messages call the dictionary by `name`.

    Raises:
        ConfigurationError: A key or a value is something that a task file cannot contain.
        RegistryError: The name of a class cannot be that of a component.
    """
    classes: Classes = {}
    places: Places = {}
    origin = Origin(name, folder=Path.cwd())

    def read(value: Any, path: KeyPath) -> Any:
        """Returns a value as a task file has it; adds its place, and the classes in it."""
        places[path] = origin, origin
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], type):
            value = {"name": value[0], **value[1]}
        if isinstance(value, type):
            return f"session:{_named(value, origin, path, classes)}"
        if isinstance(value, Path):
            return str(value)
        if value is None or isinstance(value, str | bool | int | float):
            return value
        if isinstance(value, Mapping):
            for key in value:
                if isinstance(key, bool) or not isinstance(key, str | int):
                    raise Problem(origin, path, f"a key must be text or a whole number, found {key!r}").error
            return {key: read(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [read(item, (*path, at)) for at, item in enumerate(value)]
        if hasattr(value, "item") and getattr(value, "ndim", None) == 0:  # a scalar of NumPy or PyTorch
            return read(value.item(), path)
        expected = "expected text, a number, a boolean, None, a list, a dictionary or a component class"
        raise Problem(origin, path, f"{expected}; found {value!r}").error

    settings = read(value, ())
    if not isinstance(settings, dict):
        raise ConfigurationError(f"{name}: expected a dictionary, found {value!r}")
    return Tree(settings, places), registry.with_components(classes) if classes else registry


def _named(value: type, origin: Origin, path: KeyPath, classes: Classes) -> str:
    """Returns a name for a class at a path, and adds it to the classes of its kind."""
    try:
        named = classes.setdefault(kind_at(path), {})
    except StopIteration:
        raise Problem(origin, path, f"{value!r} is a class, and no component belongs here").error from None
    name = value.__name__.lstrip("_")
    while named.setdefault(name, value) is not value:  # another class has the name
        name += "-"
    return name


def merge_layers(layers: Iterable[Tree]) -> Tree:
    """Merges layers, the lowest first; every value keeps its origin."""
    return reduce(merged, layers)


def merged(base: Tree, over: Tree) -> Tree:
    """Merges a layer over those below it."""
    tree = Tree(_over(base.value, over.value, (), over), {})
    for path, place in base.places.items():
        if isinstance(tree.get(path), dict) or tree.get(path) is base.get(path):
            tree.places[path] = place
    for path, place in over.places.items():
        # A mapping around a setting of --set keeps its place in a file, if it is in one.
        if place[0].line or path not in tree.places or not isinstance(tree.get(path), dict):
            tree.places[path] = place
    return tree


def _over(base: Any, value: Any, path: KeyPath, over: Tree) -> Any:
    """Returns a value of a layer over that of the layers below."""
    if isinstance(base, list) and isinstance(value, dict) and value and {*map(type, value)} == {int}:
        return _items(base, value, path, over)
    model, name = model_at(Task, path), value
    if model is not None and issubclass(model, Component | TokenizerSettings) and base is not None:
        base, value = ({"name": block} if isinstance(block, str) else block for block in (base, value))
    if not (isinstance(base, dict) and isinstance(value, dict)):
        return value
    replaced = model.replaced(base, value) if model and issubclass(model, Component | Settings) else ()
    kept = {key: item for key, item in base.items() if key not in replaced}
    if isinstance(name, str) and not kept:
        return name
    return kept | {key: _over(kept.get(key), item, (*path, key), over) for key, item in value.items()}


def _items(base: list[Any], changes: Mapping[int, Any], path: KeyPath, over: Tree) -> list[Any]:
    """Returns a list with changes of single items, by their numbers from 0."""
    items = list(base)
    for number, item in changes.items():
        here = (*path, number)
        if not 0 <= number < len(items):
            message = f"there is no item {number} in a list of {len(items)}"
            hint = "items count from 0; to add one, write the whole list"
            raise Problem(over.origin(here, key=True), here, message, hint).error
        items[number] = _over(items[number], item, here, over)
    return items


def shadowed(base: Tree, over: Tree) -> Iterator[Problem]:
    """Yields parts of the whole model that leave those of a stack or a layer in a layer below as they are."""
    for path, (origin, _) in base.places.items():
        *outer, key = path if path[:1] == ("model",) and base.get(path) is not None else ("",)
        model = model_at(Task, tuple(outer))
        independent = path[-2:] == ("cross_attention", "position")
        if model is None or not issubclass(model, LayerOverrides | CrossAttention) or independent:
            continue
        for general in ((*path[:depth], key) for depth in range(1, len(outer))):
            value = over.get(general)
            named = value is not None and not (isinstance(value, dict) and "name" not in value)
            if named and over.get(path, over) is over:
                message = f"{dotted(path)}, written at {origin}, would stay as it is"
                hint = f"set it, too; null ({dotted(path)}=null) means that of the whole model"
                yield Problem(over.origin(general), general, message, hint)


_PATH = ("model", "initialize_from")
_LOST = object()


def with_weights(
    layers: Sequence[Tree], registry: Registry, absolute: Callable[[Tree, KeyPath], Any]
) -> Tree:
    """Merges layers with what `model.initialize_from` decides, and the callback that loads the weights.

    `{x: ..., OPTIONS}` means the callback `initialize_from_x`; see `plugformer.interfaces.Callback.decided`.

    Args:
        layers: The defaults, then those that are written.
        registry: Has the callback.
        absolute: Returns the value at a path of a tree, absolute if it is a folder.

    Raises:
        ConfigurationError: The layers contradict the weights.
    """
    tree = merge_layers(layers)
    if not isinstance(block := tree.get(_PATH), dict) or not block:
        return tree
    with placed(tree.origin(_PATH), _PATH):
        options = {str(key): absolute(tree, (*_PATH, key)) for key in block}
        name = f"{_PATH[1]}_{next(iter(options))}"
        written = merge_layers(layers[1:])
        file, decided, defaults = registry.create(Kind.CALLBACK, name, **options).decided(written.value)
    settings = dict(leaves(decided))
    if problems := [*_contradicted(settings, written)]:
        raise ConfigurationError(report(problems))
    tree = merge_layers([layers[0], read_dictionary(defaults, file, registry)[0], *layers[1:]])
    hooks = [{"name": name, **options}, *(tree.get(("training", "callbacks")) or [])]
    settings |= {_PATH: None, ("training", "callbacks"): hooks}
    for path, value in settings.items():
        tree = tree.with_value(path, Tree.of(value, Origin(file)))
    return tree


def leaves(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yields the values within nested mappings, with their paths."""
    if not isinstance(value, Mapping) or not value:
        yield path, value
        return
    for key, item in value.items():
        yield from leaves(item, (*path, key))


def _contradicted(settings: Mapping[KeyPath, Any], written: Tree) -> Iterator[Problem]:
    """Yields settings of the model, of a stack or of a layer that are written otherwise."""
    stacks: list[KeyPath] = [("model", "encoder"), ("model", "decoder")]
    layers = {stack: written.get((*stack, "per_layer")) for stack in stacks}
    parts = [
        (*stack, "per_layer", layer)
        for stack, blocks in layers.items()
        for layer in (blocks if isinstance(blocks, dict) else ())
    ]
    for (model, *path), value in settings.items():
        for place in ((*part, *path) for part in ((model,), *stacks, *parts)):
            block = written.get(place[:-1])
            other = block if isinstance(block, str) and place[-1] == "name" else written.get(place)
            if other is not None and other != value and settings.get(place, value) == value:
                message = f"{other!r}, where the weights have {value!r}; take it out"
                yield Problem(written.origin(place), place, message)
