"""From a task's name or file to settings that have been checked, and from settings to a file."""

import os
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from plugformer.configuration.overrides import Changes, merge_layers, nested, read_dictionary, read_overrides
from plugformer.configuration.structure import (
    Block,
    blocks,
    check_structure,
    default_blocks,
    located,
    names_sides,
    origin_of,
)
from plugformer.configuration.task import Component, Task, TokenizerSettings
from plugformer.configuration.weights import with_weights
from plugformer.errors import ConfigurationError, RegistryError, RunError
from plugformer.registry import Kind, Registry
from plugformer.registry.options import explain, keys_of, options_model, written_options
from plugformer.yaml_tree import (
    KeyPath,
    MappingNode,
    Node,
    Origin,
    Problem,
    ScalarNode,
    SequenceNode,
    file_within,
    placed,
    plain,
    read_file,
    report,
    resolve_scalar,
)

_VARIABLE = re.compile(r"\$\{(\w+)\}")
_DATA = Origin("data=")
"""Where `data.name` comes from if the caller gives examples in memory."""


@dataclass(frozen=True)
class ResolvedTask:
    """A task, ready to be used: its settings, and the merged `tree` of the layers as they were written.

    The registry has the local manifests that the task names; `notices` say what the merging cleared.
    """

    task: Task
    registry: Registry
    notices: list[str]
    tree: MappingNode


Written = str | Path | Mapping[str, Any] | MappingNode
"""A task as it was written: a name, a file, a dictionary, or a tree."""


def resolve(
    task: Written,
    overrides: Changes = (),
    registry: Registry | None = None,
    *,
    in_memory: bool = False,
) -> ResolvedTask:
    """Reads a task with everything that it extends, and checks its structure and names; imports no component.

    Args:
        task: A registered task; or a file: a path, or text with a slash or ending in `.yaml`; or a dictionary
            with what a file would say, in which a component may be a class.
        overrides: Settings that are applied last: `KEY=VALUE`, a nested dictionary, or trees like those of
            task files, of which the last one wins.
        registry: What is installed; discovered if None.
        in_memory: Whether examples are in memory: `data.name` is then `memory`.

    Raises:
        RegistryError: There is no such task.
        ConfigurationError: A file or an override is wrong; all problems together, each with its place.
        RunError: A file of a run names a manifest or another task.
    """
    known = registry or Registry.discover()
    above = [nested("data.name", ScalarNode("memory", _DATA), _DATA)] if in_memory else []
    if isinstance(overrides, Mapping):
        tree, known = read_dictionary(overrides, "overrides", known)
        changes = [tree]
    else:
        arguments = [change for change in overrides if isinstance(change, str)]
        trees = [change for change in overrides if isinstance(change, MappingNode)]
        changes = [*trees, read_overrides(arguments)]
    return resolve_changed(task, [*above, *changes], known)


def resolve_changed(
    task: Written,
    changes: Iterable[MappingNode],
    registry: Registry | None = None,
    kinds: Container[str] = tuple(Kind),
) -> ResolvedTask:
    """Does what `resolve` does, with changes that are trees; only components of some kinds must be known."""
    trees, registry = read_layers(task, registry or Registry.discover())
    layers = [default_blocks(), *trees]
    for change in changes:
        if node := change.items.get("extends"):
            raise Problem(node.origin, ("extends",), "only a task file can extend a task").error
        tree, registry = with_manifest(change, registry)
        layers.append(tree)
    merged, notices = merge_layers(with_weights(layers, registry, absolute))
    tree = with_other_runs(merged)
    return ResolvedTask(check_structure(tree, registry, kinds), registry, notices, tree)


def read_layers(
    task: Written, registry: Registry, seen: tuple[Path, ...] = ()
) -> tuple[list[MappingNode], Registry]:
    """Returns the trees of a task and those below it, the task last, and a registry with their manifests.

    A task may not extend the files that were seen.
    """
    if isinstance(task, MappingNode):
        written = task
    elif isinstance(task, Mapping):
        written, registry = read_dictionary(task, "task", registry)
    else:
        file = Path(task) if isinstance(task, Path) or is_file(task) else _registered(task, Path(), registry)
        name = str(file.absolute()).removeprefix(f"{Path.cwd()}{os.sep}")
        written, seen = read_file(file, name), (*seen, file.resolve())
        if {"task", "factors"} <= written.items.keys():
            raise Problem(written.origin, (), f"this is a study: `plugformer ablate {name}` runs it").error
        refuse_references(written, file)
    tree, registry = with_manifest(written, registry)
    node = tree.items.get("extends")
    if node is None:
        return [tree], registry
    with placed(node.origin, ("extends",)):
        if not (isinstance(node, ScalarNode) and isinstance(node.value, str)):
            raise ConfigurationError("expected the name of a task or a file, with a slash or ending in .yaml")
        if not is_file(node.value):
            base = _registered(node.value, node.origin.folder, registry)
        elif not (base := expand(node.value, node.origin)).is_file():
            raise ConfigurationError(f"there is no file {str(base)!r}{file_within(base, node.value)}")
        if base.resolve() in seen:
            raise ConfigurationError(f"{base} is extended by itself")
    below, registry = read_layers(base, registry, seen)
    without = {key: item for key, item in tree.items.items() if key != "extends"}
    return [*below, replace(tree, items=without)], registry


def _registered(name: str, folder: Path, registry: Registry) -> Path:
    """Returns the file of a registered task; an error also mentions a folder of that name."""
    try:
        return registry.find_task(name)
    except RegistryError as error:
        raise RegistryError(f"{error}{file_within(folder / name, name)}") from error


def with_manifest(tree: MappingNode, registry: Registry) -> tuple[MappingNode, Registry]:
    """Adds the local manifests that a layer names; in the returned layer their paths are absolute."""
    node = tree.items.get("registry")
    named: list[Node] = []
    for item in node.items if isinstance(node, SequenceNode) else (node,):
        if not (isinstance(item, ScalarNode) and isinstance(item.value, str)):
            return tree, registry
        with placed(item.origin, ("registry",)):
            file = expand(item.value, item.origin)
            registry = registry.with_local(file)
        named.append(replace(item, value=str(file)))
    absolute = replace(node, items=tuple(named)) if isinstance(node, SequenceNode) else named[0]
    return replace(tree, items=tree.items | {"registry": absolute}), registry


def refuse_references(tree: MappingNode, file: Path) -> None:
    """Raises RunError for a task file of a run that names a manifest, or another task, which may name one.

    The modules of a manifest are imported, and the run may be somebody else's.
    """
    folders = (file.absolute().parent, file.resolve().parent)
    in_run = any((folder / "lock.json").exists() for folder in folders)
    for key in tree.items.keys() & {"extends", "registry"} if in_run else ():
        message = "the file is part of a run, and Plugformer never writes this key into one"
        hint = "do not trust it; if it is your own, remove the line and name manifests with --registry FILE"
        raise RunError(str(Problem(tree.keys[key], (key,), message, hint, at_key=True)))


def is_file(name_or_file: str) -> bool:
    """Whether a value means a file rather than a registered task."""
    return "/" in name_or_file or os.sep in name_or_file or name_or_file.endswith(".yaml")


def short_name(name_or_file: str) -> str:
    """Returns the folder name for the results of a task or study: its name, or that of its file or folder."""
    if not is_file(name_or_file):
        return name_or_file.rpartition(":")[2]
    path = Path(name_or_file).absolute()
    return (path.parent.name if path.stem in ("task", "study") else "") or path.stem


def expand(text: str, origin: Origin) -> Path:
    """Returns the absolute path that a task file means; its `~` and environment variables must be known."""
    try:
        path = Path(_VARIABLE.sub(lambda match: os.environ[match.group(1)], text)).expanduser()
    except (KeyError, RuntimeError) as error:
        message = str(error) if isinstance(error, RuntimeError) else f"the variable {error} is not set"
        raise ConfigurationError(f"{text!r}: {message}; write the path out") from error
    return Path(os.path.normpath(origin.folder.absolute() / path))


def absolute(node: Node) -> Any:
    """Returns the value of a node, absolute if it is text that means a folder."""
    value = plain(node)
    folder = expand(value, node.origin) if isinstance(value, str) else None
    return str(folder) if folder is not None and folder.is_dir() else value


def with_other_runs(tree: MappingNode) -> MappingNode:
    """Returns a merged tree with the absolute path and the tokenizers of the run that it names.

    A run's own task has these tokenizers already: then nothing is read.
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
    """Returns name and options of a run's tokenizers from its task file, or raises RunError."""
    file = run / "task.yaml"
    try:
        node = read_file(file, str(file)).items.get("tokenizer")
    except ConfigurationError as error:
        raise RunError(f"{run} is not a run directory\n{error}") from error
    if not isinstance(node, MappingNode):
        raise RunError(f"{run} is not a run directory: {file} names no tokenizer with its options")
    return node


def check_components(resolved: ResolvedTask, kinds: Container[str] = tuple(Kind)) -> ResolvedTask:
    """Returns a task with the components of some kinds imported, their options complete, and paths absolute.

    Raises:
        ConfigurationError: A component cannot be imported, or an option is unknown, missing, of the wrong
            type or out of range; every problem with its place.
    """
    problems: list[Problem] = []
    complete = plain(resolved.tree)
    for block in blocks(resolved.tree):
        if block.kind not in kinds:
            continue
        options, mistakes = _check(block, resolved)
        written = block.node.items if isinstance(block.node, MappingNode) else {}
        if block.base is not None:  # it stays as it is written; mistakes of its base are reported there
            problems += [problem for problem in mistakes if problem.path[len(block.path)] in written]
            continue
        problems += mistakes
        core = {key: plain(item) for key, item in written.items() if key in block.core}
        outer = reduce(getitem, block.path[:-1], complete)
        outer[block.path[-1]] = {"name": block.name and block.name.value, **options, **core}
    if problems:
        raise ConfigurationError(report(problems))
    return replace(resolved, task=Task.model_validate(complete))


def _check(block: Block, resolved: ResolvedTask) -> tuple[dict[str, Any], list[Problem]]:
    """Returns a component's options, complete and with absolute paths, and what is wrong with them."""
    written, name = plain(block.options), block.name and block.name.value
    try:
        model = options_model(resolved.registry.load(block.kind, str(name)))
        if taken := sorted(keys_of(model) & {"name", *block.core}):
            message = f"{block.kind} {name!r} has an option {taken[0]!r}, which is a setting of the core"
            raise RegistryError(f"{message}\nits author must give the option another name")
        checked = model.model_validate(written)
        absolute = _absolute(block.options, checked.model_dump(by_alias=True, warnings=False), block.path)
        return written_options(checked if absolute == written else model.model_validate(absolute)), []
    except RegistryError as error:
        return {}, [Problem(origin_of(resolved.tree, block.name_path), block.name_path, str(error))]
    except ValidationError as error:
        refused = explain(error, model, written, also=("name", *block.core))
        refused = [replace(problem, path=(*block.path, *problem.path)) for problem in refused]
        return {}, [located(problem, resolved.tree) for problem in refused]


def _absolute(node: Node, value: Any, path: KeyPath) -> Any:
    """Returns options with absolute paths; `value` is the validated node, with a `Path` for every path."""
    if isinstance(value, Path) and isinstance(node, ScalarNode):
        with placed(node.origin, path):
            return str(expand(str(node.value), node.origin))
    if isinstance(node, MappingNode) and isinstance(value, dict):
        by_key = {str(key): item for key, item in value.items()}
        return {key: _absolute(item, by_key.get(str(key)), (*path, key)) for key, item in node.items.items()}
    if isinstance(node, SequenceNode) and isinstance(value, list | tuple):
        pairs = enumerate(zip(node.items, value, strict=True))
        return [_absolute(item, part, (*path, index)) for index, (item, part) in pairs]
    return plain(node)


def dump(task: Task) -> str:
    """Returns the task as YAML, complete except for what says nothing (an absent setting that is absent)."""
    return yaml.dump(_plain(task), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


class _Dumper(yaml.SafeDumper):
    """Quotes text that YAML 1.2 would read as something else, and writes nothing as an alias."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 (the base class decides by value)
        return True

    def text(self, text: str) -> yaml.ScalarNode:
        # Unprintable characters are escaped: PyYAML would fold some line breaks, such as U+0085, into spaces.
        is_ambiguous = resolve_scalar(text) != text or not text.isprintable()
        return self.represent_scalar("tag:yaml.org,2002:str", text, style='"' if is_ambiguous else None)


_Dumper.add_representer(str, _Dumper.text)


def _plain(value: Any) -> Any:
    """Returns settings as a file has them: without absent ones, and overrides that override nothing."""
    if isinstance(value, TokenizerSettings) and value.source == value.target:
        run = {} if value.run is None else {"run": value.run}
        return {**_plain(value.source), "shared": value.shared, **run}
    if isinstance(value, BaseModel):
        written = {}
        for key, field in type(value).model_fields.items():
            plain = _plain(item := getattr(value, key))
            if not (item == field.default and plain in (None, {}, [], "")):
                written[field.alias or key] = plain
        if isinstance(value, Component):
            return {**({"name": value.name} if value.name else {}), **value.options, **written}
        return written
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
