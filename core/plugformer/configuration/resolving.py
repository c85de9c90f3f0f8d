"""From a task's name or file to settings that have been checked, and from settings to a file."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from plugformer.configuration.layers import (
    expand,
    read_layers,
    with_extended,
    with_manifest,
    with_other_runs,
)
from plugformer.configuration.overrides import Changes, merge_layers, nested, read_dictionary, read_overrides
from plugformer.configuration.structure import (
    Block,
    blocks,
    check_structure,
    default_blocks,
    located,
    origin_of,
)
from plugformer.configuration.task import Component, Task, TokenizerSettings
from plugformer.errors import ConfigurationError, RegistryError
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
    placed,
    plain,
    report,
    resolve_scalar,
)

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


def resolve(
    task: str | Path | Mapping[str, Any],
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
    if isinstance(task, Mapping):
        layers, known = with_extended(*read_dictionary(task, "task", known))
    else:
        layers, known = read_layers(str(task.absolute()) if isinstance(task, Path) else task, known)
    return resolve_layers(layers, known, [*above, *changes])


def resolve_layers(
    trees: Iterable[MappingNode],
    registry: Registry,
    changes: Iterable[MappingNode] = (),
    kinds: Container[str] = tuple(Kind),
) -> ResolvedTask:
    """Returns the task of merged trees; components of these kinds must be known."""
    layers = [default_blocks(), *trees]
    for change in changes:
        if node := change.items.get("extends"):
            raise Problem(node.origin, ("extends",), "only a task file can extend a task").error
        tree, registry = with_manifest(change, registry)
        layers.append(tree)
    merged, notices = merge_layers(layers)
    tree = with_other_runs(merged)
    return ResolvedTask(check_structure(tree, registry, kinds), registry, notices, tree)


def check_components(resolved: ResolvedTask, kinds: Container[str] = tuple(Kind)) -> ResolvedTask:
    """Imports the components that a task names and checks their options.

    Components of other kinds stay as they are written.

    Returns:
        The task with the defaults of all options filled in and its paths made absolute.

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
        problems += mistakes
        written = plain(block.node)
        core = (
            {key: written[key] for key in written if key in block.core} if isinstance(written, dict) else {}
        )
        outer = reduce(getitem, block.path[:-1], complete)
        outer[block.path[-1]] = {"name": block.name and block.name.value, **options, **core}
    if problems:
        raise ConfigurationError(report(problems))
    return replace(resolved, task=Task.model_validate(complete))


def _check(block: Block, resolved: ResolvedTask) -> tuple[dict[str, Any], list[Problem]]:
    """Returns a component's options, complete and with absolute paths, and what is wrong with them."""
    written = plain(block.options)
    try:
        model = _model(block, resolved.registry)
        checked = model.model_validate(written)
        absolute = _absolute(block.options, checked.model_dump(by_alias=True, warnings=False), block.path)
        return written_options(checked if absolute == written else model.model_validate(absolute)), []
    except RegistryError as error:
        return {}, [Problem(origin_of(resolved.tree, block.name_path), block.name_path, str(error))]
    except ValidationError as error:
        refused = explain(error, model, written, also=("name", *block.core))
        refused = [replace(problem, path=(*block.path, *problem.path)) for problem in refused]
        return {}, [located(problem, resolved.tree) for problem in refused]


def _model(block: Block, registry: Registry) -> type[BaseModel]:
    if block.name is None:
        raise RegistryError(f"the {block.kind} has no name")
    model = options_model(registry.load(block.kind, str(block.name.value)))
    if taken := sorted(keys_of(model) & {"name", *block.core}):
        raise RegistryError(
            f"{block.kind} {block.name.value!r} has an option {taken[0]!r}, which is a setting of the core "
            "there\nits author must give the option another name"
        )
    return model


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
            if not (item == field.default and plain in (None, {}, [])):
                written[field.alias or key] = plain
        if isinstance(value, Component):
            return {"name": value.name, **value.options, **written}
        return written
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
