"""The files of a task: those that it extends, the local manifests and the runs that it names, and paths."""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from plugformer.configuration.structure import names_sides
from plugformer.errors import ConfigurationError, RegistryError, RunError
from plugformer.registry import Registry
from plugformer.yaml_tree import MappingNode, Origin, Problem, ScalarNode, file_within, placed, read_file

_VARIABLE = re.compile(r"\$\{(\w+)\}")

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
    with placed(node.origin, ("registry",)):
        file = expand(node.value, node.origin)
        registry = registry.with_local(file)
    return replace(tree, items=tree.items | {"registry": replace(node, value=str(file))}), registry


def refuse_references(tree: MappingNode, file: Path) -> None:
    """Refuses a task file of a run that names a manifest, or another task, which may name one.

    The modules of a manifest are imported, and the run may be somebody else's. Plugformer never writes these
    keys into a run.

    Raises:
        RunError: The file is part of a run, and has such a key.
    """
    in_run = any(
        (folder / "lock.json").exists() for folder in (file.absolute().parent, file.resolve().parent)
    )
    for key in tree.items.keys() & {"extends", "registry"} if in_run else ():
        message = "the file is part of a run, and Plugformer never writes this key into one"
        hint = "do not trust it; if it is your own, remove the line and name manifests with --registry FILE"
        raise RunError(str(Problem(tree.keys[key], (key,), message, hint, at_key=True)))


def is_file(name_or_file: str) -> bool:
    """Whether a value means a file rather than a registered task."""
    return "/" in name_or_file or os.sep in name_or_file or name_or_file.endswith(".yaml")


def short_name(name_or_file: str) -> str:
    """Returns the folder name for the results of a task or study.

    It is the name of the task or file. Of a file `task.yaml` or `study.yaml`, it is the name of the folder.
    """
    if not is_file(name_or_file):
        return name_or_file.rpartition(":")[2]
    path = Path(name_or_file).absolute()
    return (path.parent.name if path.stem in ("task", "study") else "") or path.stem


def _read(file: Path, name: str, registry: Registry, seen: tuple[Path, ...]) -> Layers:
    written = read_file(file, name)
    if {"task", "factors"} <= written.items.keys():
        raise Problem(written.origin, (), f"this is a study: `plugformer ablate {name}` runs it").error
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
    if not (isinstance(node, ScalarNode) and isinstance(node.value, str)):
        message = "expected the name of a task or a file, with a slash or ending in .yaml"
        raise Problem(node.origin, ("extends",), message).error
    with placed(node.origin, ("extends",)):
        if not is_file(node.value):
            base = _registered(node.value, node.origin.folder, registry)
        elif not (base := expand(node.value, node.origin)).is_file():
            raise ConfigurationError(f"there is no file {str(base)!r}{file_within(base, node.value)}")
        if base.resolve() in seen:
            chain = " -> ".join(map(_display, (*seen, base.resolve())))
            raise ConfigurationError(f"goes round in a circle: {chain}")
    below, registry = _read(base, _display(base), registry, seen)
    without = {key: item for key, item in tree.items.items() if key != "extends"}
    return [*below, replace(tree, items=without)], registry


def _registered(name: str, folder: Path, registry: Registry) -> Path:
    """Returns the file of a registered task; an error also mentions a folder of that name."""
    try:
        return registry.find_task(name)
    except RegistryError as error:
        raise RegistryError(f"{error}{file_within(folder / name, name)}") from error


def _display(file: Path) -> str:
    """Returns the path, relative to the current folder if it is inside."""
    absolute = file.absolute()
    return str(absolute.relative_to(Path.cwd())) if absolute.is_relative_to(Path.cwd()) else str(absolute)


def expand(text: str, origin: Origin) -> Path:
    """Returns the absolute path that a task file means.

    Raises:
        ConfigurationError: A variable is not set, or the home folder is unknown.
    """
    try:
        path = Path(_VARIABLE.sub(lambda match: os.environ[match.group(1)], text)).expanduser()
    except (KeyError, RuntimeError) as error:
        message = str(error) if isinstance(error, RuntimeError) else f"the variable {error} is not set"
        raise ConfigurationError(f"{text!r}: {message}; write the path out") from error
    return Path(os.path.normpath(origin.folder.absolute() / path))


def with_other_runs(tree: MappingNode) -> MappingNode:
    """Returns a merged tree with absolute paths of runs, and with the tokenizers of the run that it names.

    A run's own task has these tokenizers already: then nothing is read.

    Raises:
        ConfigurationError: A path is invalid, or is not a run with tokenizers.
    """
    block = tree.items.get("tokenizer")
    node = block.items.get("run") if isinstance(block, MappingNode) else None
    if not (isinstance(block, MappingNode) and isinstance(node, ScalarNode) and isinstance(node.value, str)):
        return tree
    with placed(node.origin, ("tokenizer", "run")):
        run = expand(node.value, node.origin)
        below = tokenizer_of(run) if "name" not in block.items and not names_sides(block) else block
    items = below.items | block.items | {"run": replace(node, value=str(run))}
    merged = replace(block, items=items, keys=below.keys | block.keys)
    return replace(tree, items=tree.items | {"tokenizer": merged})


def tokenizer_of(run: Path) -> MappingNode:
    """Returns name and options of a run's tokenizers from its task file.

    Raises:
        RunError: It is no run directory.
    """
    file = run / "task.yaml"
    try:
        node = read_file(file, str(file)).items.get("tokenizer")
    except ConfigurationError as error:
        raise RunError(f"{run} is not a run directory\n{error}") from error
    if not isinstance(node, MappingNode):
        raise RunError(f"{run} is not a run directory: {file} names no tokenizer with its options")
    return node
