"""The files that make up a task: the file itself and what it extends, with the local manifests they name."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from plugformer.configuration.paths import expand
from plugformer.documents import Mapping, Node, Scalar, read_file
from plugformer.errors import ConfigurationError, PlugformerError
from plugformer.problems import Problem, report
from plugformer.registry import Registry

MAX_FILES = 100
"""Files that extend one another: real tasks have a few."""


@dataclass(frozen=True, slots=True)
class Layers:
    """The files of a task, the one that extends nothing first, and the registry with their manifests."""

    trees: tuple[Mapping, ...]
    registry: Registry


def read_layers(name_or_file: str, registry: Registry) -> Layers:
    """Reads a task file and those that it extends.

    Args:
        name_or_file: A registered name, or a file: a value with a slash or ending in `.yaml`.
        registry: Where names are looked up.

    Raises:
        RegistryError: The name is unknown, in conflict or quarantined.
        ConfigurationError: A file cannot be read, is malformed, or extends itself in the end.
    """
    file = Path(name_or_file) if is_file(name_or_file) else registry.find_task(name_or_file)
    return _read(file, _display(file), registry, ())


def with_manifest(tree: Mapping, registry: Registry) -> tuple[Mapping, Registry]:
    """Adds the local manifest that a layer names; in the returned layer its path is absolute.

    Raises:
        ConfigurationError: The manifest cannot be read.
    """
    node = tree.items.get("registry")
    if not (isinstance(node, Scalar) and isinstance(node.value, str)):
        return tree, registry
    try:
        file = expand(node.value, node.origin)
        registry = registry.with_local(file)
    except PlugformerError as error:
        raise _located(node, "registry", error) from error
    absolute = Scalar(str(file), node.origin)
    return replace(tree, items=tree.items | {"registry": absolute}), registry


def is_file(name_or_file: str) -> bool:
    """Whether a value means a file rather than a registered task."""
    return "/" in name_or_file or os.sep in name_or_file or name_or_file.endswith(".yaml")


def short_name(name_or_file: str) -> str:
    """Returns what folders of a task's or study's results are called.

    That is its name, or that of its file, or of the folder around it where the file is called `task.yaml` or
    `study.yaml`, as most are.
    """
    if not is_file(name_or_file):
        return name_or_file.rpartition(":")[2]
    path = Path(name_or_file).absolute()
    return (path.parent.name if path.stem in ("task", "study") else "") or path.stem


def _read(file: Path, shown: str, registry: Registry, seen: tuple[Path, ...]) -> Layers:
    tree, registry = with_manifest(read_file(file, shown), registry)
    seen = (*seen, file.resolve())
    node = tree.items.get("extends")
    if node is None:
        return Layers((tree,), registry)
    without = replace(tree, items={key: item for key, item in tree.items.items() if key != "extends"})
    base = _base(node, registry)
    if base.resolve() in seen:
        chain = " -> ".join(_display(each) for each in (*seen, base.resolve()))
        raise ConfigurationError(
            report([Problem(node.origin, ("extends",), f"goes round in a circle: {chain}")])
        )
    if len(seen) == MAX_FILES:
        message = f"more than {MAX_FILES} files extend one another; put some of them together"
        raise ConfigurationError(report([Problem(node.origin, ("extends",), message)]))
    below = _read(base, _display(base), registry, seen)
    return Layers((*below.trees, without), below.registry)


def _base(node: Node, registry: Registry) -> Path:
    if not (isinstance(node, Scalar) and isinstance(node.value, str)):
        message = "expected the name of a task or a file, with a slash or ending in .yaml"
        raise ConfigurationError(report([Problem(node.origin, ("extends",), message)]))
    try:
        if not is_file(node.value):
            return registry.find_task(node.value)
        file = expand(node.value, node.origin)
    except PlugformerError as error:
        raise _located(node, "extends", error) from error
    if not file.is_file():
        message = f"there is no file {str(file)!r}"
        raise ConfigurationError(report([Problem(node.origin, ("extends",), message)]))
    return file


def _located(node: Node, key: str, error: PlugformerError) -> ConfigurationError:
    message, _, hint = str(error).partition("\n")
    return ConfigurationError(report([Problem(node.origin, (key,), message, hint)]))


def _display(file: Path) -> str:
    """Returns the path as it is shortest from the current folder."""
    absolute = file.absolute()
    return str(absolute.relative_to(Path.cwd())) if absolute.is_relative_to(Path.cwd()) else str(absolute)
