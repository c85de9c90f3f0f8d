"""From a task's name or file to settings that have been checked, and from settings to a file."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from plugformer.configuration.overrides import Changes, merge_layers, nested, read_changes, read_dictionary
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
from plugformer.registry.options import explain, key_of, keys_of, options_model, written_options
from plugformer.yaml_tree import (
    Key,
    KeyPath,
    MappingNode,
    Node,
    Origin,
    Problem,
    ScalarNode,
    SequenceNode,
    plain,
    report,
    resolve_scalar,
)

_DATA = Origin("data=")
"""Where `data.name` comes from if the caller gives examples in memory."""


@dataclass(frozen=True)
class ResolvedTask:
    """A task, ready to be used.

    Attributes:
        task: The settings.
        registry: The registry with the local manifests that the task names.
        notices: What a user should know about how layers were merged.
        tree: The merged layers, as they were written.
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
    trees, known = _read(task, registry or Registry.discover())
    changes, known = read_changes(overrides, known)
    above = [nested("data.name", ScalarNode("memory", _DATA), _DATA)] if in_memory else []
    return resolve_layers(trees, known, [*above, *changes])


def _read(task: str | Path | Mapping[str, Any], registry: Registry) -> tuple[Sequence[MappingNode], Registry]:
    if isinstance(task, Mapping):
        return with_extended(*read_dictionary(task, "task", registry))
    return read_layers(str(task.absolute()) if isinstance(task, Path) else task, registry)


def resolve_layers(
    trees: Iterable[MappingNode],
    registry: Registry,
    changes: Iterable[MappingNode] = (),
    kinds: Container[str] = tuple(Kind),
) -> ResolvedTask:
    """Returns the task of merged trees; components of these kinds must be known."""
    above = []
    for change in changes:
        if node := change.items.get("extends"):
            message = "only a task file can extend a task: write one, or give that task instead of this one"
            raise Problem(node.origin, ("extends",), message).error
        tree, registry = with_manifest(change, registry)
        above.append(tree)
    merged, notices = merge_layers([default_blocks(), *trees, *above])
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
        _put(complete, block.path, _plain_block(block, options))
    if problems:
        raise ConfigurationError(report(problems))
    return replace(resolved, task=Task.model_validate(complete))


def _check(block: Block, resolved: ResolvedTask) -> tuple[dict[str, Any], list[Problem]]:
    """Returns a component's options, complete and with absolute paths, and what is wrong with them."""
    options, problems = block.options, list[Problem]()
    try:
        model = _model(block, resolved.registry)
        checked = model.model_validate(plain(options))
        absolute = resolve_paths(options, checked, block.path, problems)
        if absolute != options:
            checked = model.model_validate(plain(absolute))
        return written_options(checked), problems
    except RegistryError as error:
        return {}, [Problem(origin_of(resolved.tree, block.name_path), block.name_path, str(error))]
    except ValidationError as error:
        refused = explain(error, model, plain(block.options), also=("name", *block.core))
        placed = [replace(problem, path=(*block.path, *problem.path)) for problem in refused]
        return {}, problems or [located(problem, resolved.tree) for problem in placed]


def _model(block: Block, registry: Registry) -> type[BaseModel]:
    name = block.name
    if name is None:
        raise RegistryError(f"the {block.kind} has no name")
    model = options_model(registry.load(block.kind, str(name.value)))
    if taken := sorted(keys_of(model) & {"name", *block.core}):
        raise RegistryError(
            f"{block.kind} {name.value!r} has an option {taken[0]!r}, which is a setting of the core there\n"
            "its author must give the option another name"
        )
    return model


def _plain_block(block: Block, complete: dict[str, Any]) -> dict[str, Any]:
    """Returns a component's block with its core settings as written and its options complete."""
    written = plain(block.node) if isinstance(block.node, MappingNode) else {}
    core = {key: written[key] for key in written if key in block.core}
    name = None if block.name is None else block.name.value
    return {"name": name, **complete, **core}


def _put(tree: Any, path: KeyPath, value: object) -> None:
    for key in path[:-1]:
        tree = tree[key]
    tree[path[-1]] = value


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


def resolve_paths(node: Node, value: object, path: KeyPath, problems: list[Problem]) -> Node:
    """Returns options with absolute paths; a path that cannot be resolved becomes one of the problems.

    `value` is the validated node, with a `pathlib.Path` for every path.
    """
    if isinstance(value, Path) and isinstance(node, ScalarNode):
        try:
            return replace(node, value=str(expand(str(node.value), node.origin)))
        except ConfigurationError as error:
            problems.append(Problem(node.origin, path, str(error)))
    elif isinstance(node, MappingNode):
        parts = _parts(node, value)
        items = {
            key: resolve_paths(item, parts.get(key), (*path, key), problems)
            for key, item in node.items.items()
        }
        return replace(node, items=items)
    elif isinstance(node, SequenceNode) and isinstance(value, Iterable):
        pairs = enumerate(zip(node.items, value, strict=False))
        nodes = [resolve_paths(item, part, (*path, index), problems) for index, (item, part) in pairs]
        return replace(node, items=tuple(nodes))
    return node


def _parts(node: MappingNode, value: object) -> dict[Key, Any]:
    """Returns the validated items of a mapping by the keys that they were written with."""
    if isinstance(value, BaseModel):
        fields = type(value).model_fields.items()
        return {**dict(value), **{key_of(name, field): getattr(value, name) for name, field in fields}}
    return dict(zip(node.items, value.values(), strict=False)) if isinstance(value, dict) else {}
