"""From a task's name or file to settings that have been checked, and from settings to a file."""

import os
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate
from operator import getitem
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from plugformer.configuration.overrides import (
    Changes,
    merge_layers,
    merged,
    read_changes,
    read_dictionary,
    shadowed,
    with_weights,
)
from plugformer.configuration.structure import (
    check_structure,
    components,
    default_blocks,
    kind_at,
    located,
)
from plugformer.configuration.task import Component, Task, TokenizerSettings
from plugformer.errors import ConfigurationError, RegistryError, RunError
from plugformer.registry import Kind, Registry
from plugformer.registry.options import explain, keys_of, options_model, written_options
from plugformer.yaml_reader import file_within, read_file, resolve_scalar
from plugformer.yaml_tree import (
    Key,
    KeyPath,
    Origin,
    Problem,
    Tree,
    placed,
    report,
)

_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True)
class ResolvedTask:
    """A task, ready to be used: its settings, and the merged `tree` of the layers as they were written.

    The registry has the local manifests that the task names.
    """

    task: Task
    registry: Registry
    tree: Tree


Written = str | Path | Mapping[str, Any] | Tree
"""A task as it was written: a name, a file, a dictionary, or a tree."""


def resolve(
    task: Written,
    overrides: Changes = (),
    registry: Registry | None = None,
    *,
    in_memory: bool = False,
    kinds: Container[str] = tuple(Kind),
) -> ResolvedTask:
    """Reads a task with everything that it extends, and checks its structure and names; imports no component.

    Args:
        task: A registered task; or a file: a path, or text with a slash or ending in `.yaml`; or a dictionary
            with what a file would say, in which a component may be a class.
        overrides: Settings that are applied last: `KEY=VALUE`, a nested dictionary, or a list of these and of
            trees like those of task files, of which the last one wins.
        registry: What is installed; discovered if None.
        in_memory: Whether examples are in memory: `data.name` is then `memory`, with the options that the
            task has for it; another component that the task names loses its options.
        kinds: Kinds of the components that must be in the registry.

    Raises:
        RegistryError: There is no such task.
        ConfigurationError: A file or an override is wrong; all problems together, each with its place.
        RunError: A file of a run names a manifest or another task.
    """
    layers, registry = read_layers(task, registry or Registry.discover())
    if in_memory:
        memory = Tree.of("memory", Origin("data=")).under(("data", "name"))
        named = merge_layers([memory, *layers]).get(("data", "name"))
        layers.insert(0 if named == "memory" else len(layers), memory)  # on top it would replace options
    changes, registry = read_changes(overrides, registry)
    for change in changes:
        if change.get(("extends",)):
            message = "only a task file can extend a task"
            raise Problem(change.origin(("extends",)), ("extends",), message).error
        tree, registry = with_manifest(change, registry)
        layers.append(tree)
    steps = zip(accumulate(layers, merged), layers[1:], strict=False)
    if problems := [problem for base, over in steps for problem in shadowed(base, over)]:
        raise ConfigurationError(report(problems))
    tree = with_other_run(with_weights([Tree(default_blocks(), {}), *layers], registry, absolute))
    return ResolvedTask(check_structure(tree, registry, kinds), registry, tree)


def read_layers(
    task: Written, registry: Registry, seen: tuple[Path, ...] = ()
) -> tuple[list[Tree], Registry]:
    """Returns the trees of a task and those below it, the task last, and a registry with their manifests.

    A task may not extend the files that were seen.
    """
    if isinstance(task, Tree):
        written = task
    elif isinstance(task, Mapping):
        written, registry = read_dictionary(task, "task", registry)
    elif not isinstance(task, str | Path):
        raise ConfigurationError(f"task: expected a name, a file or a dictionary, found {task!r}")
    else:
        file = Path(task) if isinstance(task, Path) or is_file(task) else _registered(task, Path(), registry)
        name = str(file.absolute()).removeprefix(f"{Path.cwd()}{os.sep}")
        written, seen = read_file(file, name), (*seen, file.resolve())
        keys = written.value.keys()
        if keys & {"task", "tasks"} and keys & {"factors", "arms", "preset"}:
            message = f"this is a study: `plugformer ablate {name}` runs it"
            raise Problem(written.origin(()), (), message).error
        refuse_references(written, file)
    tree, registry = with_manifest(written, registry)
    if (extended := tree.get(("extends",))) is None:
        return [tree], registry
    with placed(tree.origin(("extends",)), ("extends",)):
        if not isinstance(extended, str):
            raise ConfigurationError("expected the name of a task or a file, with a slash or ending in .yaml")
        if not is_file(extended):
            base = _registered(extended, tree.folder(("extends",)), registry)
        elif not (base := expand(extended, tree.folder(("extends",)))).is_file():
            raise ConfigurationError(f"there is no file {str(base)!r}{file_within(base, extended)}")
        if base.resolve() in seen:
            raise ConfigurationError(f"{base} extends itself")
    below, registry = read_layers(base, registry, seen)
    value = {key: item for key, item in tree.value.items() if key != "extends"}
    return [*below, replace(tree, value=value)], registry


def _registered(name: str, folder: Path, registry: Registry) -> Path:
    """Returns the file of a registered task; an error also mentions a folder of that name."""
    try:
        return registry.find_task(name)
    except RegistryError as error:
        raise RegistryError(f"{error}{file_within(folder / name, name)}") from error


def with_manifest(tree: Tree, registry: Registry) -> tuple[Tree, Registry]:
    """Adds the local manifests that a layer names; in the returned layer their paths are absolute."""
    value = tree.get(("registry",))
    names = value if isinstance(value, list) else [value]
    if not all(isinstance(name, str) for name in names):
        return tree, registry  # refused later, or nothing
    files = []
    for number, name in enumerate(names):
        path = ("registry", number)
        with placed(tree.origin(path), ("registry",)):
            files.append(expand(name, tree.folder(path)))
            registry = registry.with_local(files[-1])
    absolute = list(map(str, files)) if isinstance(value, list) else str(files[0])
    return replace(tree, value={**tree.value, "registry": absolute}), registry


def refuse_references(tree: Tree, file: Path) -> None:
    """Raises RunError for a task file of a run that names a manifest, or another task, which may name one.

    The modules of a manifest are imported, and the run may be somebody else's.
    """
    folders = (file.absolute().parent, file.resolve().parent)
    in_run = any((folder / "lock.json").exists() for folder in folders)
    for key in tree.value.keys() & {"extends", "registry"} if in_run else ():
        message = "the file is part of a run, and Plugformer never writes this key into one"
        hint = "do not trust it; if it is your own, remove the line and name manifests with --registry FILE"
        raise RunError(str(Problem(tree.origin((key,), key=True), (key,), message, hint)))


def is_file(name_or_file: str) -> bool:
    """Whether a value means a file rather than a registered task."""
    return "/" in name_or_file or os.sep in name_or_file or name_or_file.endswith((".yaml", ".yml"))


def short_name(name_or_file: str) -> str:
    """Returns the folder name for the results of a task or study: its name, or that of its file or folder."""
    if not is_file(name_or_file):
        return name_or_file.rpartition(":")[2]
    path = Path(name_or_file).absolute()
    return (path.parent.name if path.stem in ("task", "study") else "") or path.stem


def expand(text: str, folder: Path) -> Path:
    """Returns the absolute path that a task file in a folder means; `~` and variables must be known."""
    try:
        path = Path(_VARIABLE.sub(lambda match: os.environ[match.group(1)], text)).expanduser()
    except (KeyError, RuntimeError) as error:
        message = str(error) if isinstance(error, RuntimeError) else f"the variable {error} is not set"
        raise ConfigurationError(f"{text!r}: {message}; write the path out") from error
    return Path(os.path.normpath(folder / path))


def absolute(tree: Tree, path: KeyPath) -> Any:
    """Returns the value at a path, absolute if it is text that means a folder."""
    value = tree.get(path)
    folder = expand(value, tree.folder(path)) if isinstance(value, str) else None
    return str(folder) if folder is not None and folder.is_dir() else value


def with_other_run(tree: Tree) -> Tree:
    """Returns a merged tree with the absolute path and the tokenizers of the run that it names.

    A run's own task has these tokenizers already: then nothing is read.
    """
    block, path = tree.get(("tokenizer",)), ("tokenizer", "run")
    if not isinstance(text := tree.get(path), str):
        return tree
    with placed(tree.origin(path), path):
        run = expand(text, tree.folder(path))
        known = {} if {"name", "source", "target"} & block.keys() else tokenizer_of(run)
    return replace(tree, value={**tree.value, "tokenizer": {**known, **block, "run": str(run)}})


def tokenizer_of(run: Path) -> dict[Key, Any]:
    """Returns name and options of a run's tokenizers from its task file, or raises RunError."""
    file = run / "task.yaml"
    try:
        block = read_file(file, str(file)).get(("tokenizer",))
    except ConfigurationError as error:
        raise RunError(f"{run} is not a run directory\n{error}") from error
    if not isinstance(block, dict):
        raise RunError(f"{run} is not a run directory: {file} names no tokenizer with its options")
    return block


def check_components(resolved: ResolvedTask, kinds: Container[str] = tuple(Kind)) -> ResolvedTask:
    """Returns a task with the components of some kinds imported, their options complete, and paths absolute.

    Raises:
        ConfigurationError: A component cannot be imported, or an option is unknown, missing, of the wrong
            type or out of range; every problem with its place.
    """
    problems: list[Problem] = []
    complete = resolved.task.model_dump(by_alias=True)
    for path, component in components(resolved.task):
        if kind_at(path) in kinds:
            options, mistakes = _check(component, path, resolved)
            outer: Any = reduce(getitem, path[:-1], complete)  # type: ignore[arg-type]
            kept = {key: item for key, item in outer[path[-1]].items() if key not in options}
            outer[path[-1]] = kept | options
            problems += mistakes
    if problems:
        raise ConfigurationError(report(problems))
    return replace(resolved, task=Task.model_validate(complete))


def _check(
    component: Component, path: KeyPath, resolved: ResolvedTask
) -> tuple[dict[str, Any], list[Problem]]:
    """Returns a component's options, complete and with absolute paths, and what is wrong with them.

    A group of parameters without a name has the optimizer of its task, and stays as it is written.
    """
    kind, tree, core = kind_at(path), resolved.tree, {"name", *keys_of(type(component))}
    outer = component if component.name else resolved.task.training.optimizer
    written, here = {**outer.options, **component.options}, path if tree.get(path) else path[:-1]
    try:
        model = options_model(resolved.registry.load(kind, outer.name))
        if taken := sorted(keys_of(model) & core):
            message = f"{kind} {outer.name!r} has an option {taken[0]!r}, which is a setting of the core"
            raise RegistryError(f"{message}\nits author must give the option another name")
        checked = model.model_validate(written)
        absolute = _absolute(written, checked.model_dump(by_alias=True, warnings=False), tree, path)
        options = written_options(checked if absolute == written else model.model_validate(absolute))
        return options if component.name else {}, []
    except RegistryError as error:
        name = (*here, "name") if isinstance(tree.get(here), dict) else here
        return {}, [Problem(tree.origin(name), name, str(error))]
    except ValidationError as error:
        refused = explain(error, model, written, also=core)
        inside = (problem for problem in refused if component.name or problem.path[0] in component.options)
        return {}, [located(replace(problem, path=(*here, *problem.path)), tree) for problem in inside]


def _absolute(written: Any, value: Any, tree: Tree, path: KeyPath) -> Any:
    """Returns options with absolute paths; `value` has been validated, with a `Path` for every path."""
    if isinstance(value, Path):
        with placed(tree.origin(path), path):
            return str(expand(str(written), tree.folder(path)))
    if isinstance(written, dict) and isinstance(value, dict):
        parts = {str(key): item for key, item in value.items()}
        return {
            key: _absolute(item, parts.get(str(key)), tree, (*path, key)) for key, item in written.items()
        }
    if isinstance(written, list) and isinstance(value, list | tuple):
        pairs = enumerate(zip(written, value, strict=True))
        return [_absolute(item, part, tree, (*path, index)) for index, (item, part) in pairs]
    return written


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
