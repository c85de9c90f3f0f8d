"""The files of a task, the local manifests that they name, and the rules for merging them.

A component's block with a name replaces the inherited block, except settings of the core, so that no option
of the old component reaches the new one; a block without a name merges. Plain mappings merge, lists and
single values replace. A key clears the inherited keys that it excludes (`steps`, `epochs`), and a part of the
whole model clears inherited settings of single stacks and layers.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from plugformer.configuration.paths import expand
from plugformer.configuration.structure import DEFAULT, block_of, core_keys, names_sides
from plugformer.configuration.task import Component, Overrides, Settings, Task, TokenizerSettings
from plugformer.errors import PlugformerError, RegistryError, RunError
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
    dotted,
    file_within,
    read_file,
)

Layers = tuple[Sequence[MappingNode], Registry]
"""The files of a task, the one that extends nothing first, and the registry with their manifests."""


def read_layers(name_or_file: str, registry: Registry) -> Layers:
    """Reads a task, a registered one or a file (see `is_file`), and those that it extends.

    Raises:
        RegistryError: The name is unknown, in conflict or quarantined.
        ConfigurationError: A file cannot be read, is malformed, or extends itself in the end.
        RunError: A file of a run names a manifest or another task.
    """
    file = Path(name_or_file) if is_file(name_or_file) else _registered(name_or_file, Path(), registry)
    return _read(file, _display(file), registry, ())


def with_manifest(tree: MappingNode, registry: Registry) -> tuple[MappingNode, Registry]:
    """Adds the local manifest that a layer names; in the returned layer its path is absolute.

    Raises:
        ConfigurationError: The manifest cannot be read.
    """
    node = tree.items.get("registry")
    if not (isinstance(node, ScalarNode) and isinstance(node.value, str)):
        return tree, registry
    try:
        file = expand(node.value, node.origin)
        registry = registry.with_local(file)
    except PlugformerError as error:
        raise Problem(node.origin, ("registry",), str(error)).error from error
    absolute = ScalarNode(str(file), node.origin)
    return replace(tree, items=tree.items | {"registry": absolute}), registry


def refuse_references(tree: MappingNode, file: Path) -> None:
    """Refuses a task file of a run that names a manifest, or another task, which may name one.

    The modules of a manifest are imported, and the run may be somebody else's. Plugformer never writes these
    keys into a run.

    Raises:
        RunError: The file is part of a run, and has such a key.
    """
    if not any((folder / "lock.json").exists() for folder in (file.absolute().parent, file.resolve().parent)):
        return
    for key in tree.items.keys() & {"extends", "registry"}:
        message = "the file is part of a run, and Plugformer never writes this key into one"
        hint = "do not trust it; if it is your own, remove the line and name manifests with --registry FILE"
        raise RunError(str(Problem(tree.keys[key], (key,), message, hint, at_key=True)))


def is_file(name_or_file: str) -> bool:
    """Whether a value means a file rather than a registered task."""
    return "/" in name_or_file or os.sep in name_or_file or name_or_file.endswith(".yaml")


def short_name(name_or_file: str) -> str:
    """Returns the folder name for the results of a task or study.

    That is its name, or that of its file, or of the folder around it where the file is called `task.yaml` or
    `study.yaml`, as most are.
    """
    if not is_file(name_or_file):
        return name_or_file.rpartition(":")[2]
    path = Path(name_or_file).absolute()
    return (path.parent.name if path.stem in ("task", "study") else "") or path.stem


def _read(file: Path, shown: str, registry: Registry, seen: tuple[Path, ...]) -> Layers:
    written = read_file(file, shown)
    if {"task", "factors"} <= written.items.keys():
        raise Problem(written.origin, (), f"this is a study: `plugformer ablate {shown}` runs it").error
    refuse_references(written, file)
    return with_extended(written, registry, (*seen, file.resolve()))


def with_extended(written: MappingNode, registry: Registry, seen: tuple[Path, ...] = ()) -> Layers:
    """Returns a layer with those that it extends below it; it may not extend the files that were seen.

    Raises:
        ConfigurationError: A file cannot be read, is malformed, or extends itself in the end.
    """
    tree, registry = with_manifest(written, registry)
    node = tree.items.get("extends")
    if node is None:
        return [tree], registry
    without = replace(tree, items={key: item for key, item in tree.items.items() if key != "extends"})
    base = _base(node, registry)
    if base.resolve() in seen:
        chain = " -> ".join(map(_display, (*seen, base.resolve())))
        raise Problem(node.origin, ("extends",), f"goes round in a circle: {chain}").error
    below, registry = _read(base, _display(base), registry, seen)
    return [*below, without], registry


def _base(node: Node, registry: Registry) -> Path:
    if not (isinstance(node, ScalarNode) and isinstance(node.value, str)):
        message = "expected the name of a task or a file, with a slash or ending in .yaml"
        raise Problem(node.origin, ("extends",), message).error
    try:
        if not is_file(node.value):
            return _registered(node.value, node.origin.folder, registry)
        file = expand(node.value, node.origin)
    except PlugformerError as error:
        raise Problem(node.origin, ("extends",), str(error)).error from error
    if not file.is_file():
        message = f"there is no file {str(file)!r}{file_within(file, node.value)}"
        raise Problem(node.origin, ("extends",), message).error
    return file


def _registered(name: str, folder: Path, registry: Registry) -> Path:
    """Returns the file of a registered task; an error also mentions a folder of that name."""
    try:
        return registry.find_task(name)
    except RegistryError as error:
        raise RegistryError(f"{error}{file_within(folder / name, name)}") from error


def _display(file: Path) -> str:
    """Returns the path as it is shortest from the current folder."""
    absolute = file.absolute()
    return str(absolute.relative_to(Path.cwd())) if absolute.is_relative_to(Path.cwd()) else str(absolute)


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
