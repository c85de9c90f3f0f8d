"""Paths in task files: relative to the file that wrote them, with `~` and `${VARIABLE}`; other runs too."""

import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from plugformer.configuration.structure import names_sides
from plugformer.errors import ConfigurationError, PlugformerError, RunError
from plugformer.registry.options import key_of
from plugformer.yaml_tree import (
    Key,
    KeyPath,
    MappingNode,
    Node,
    Origin,
    Problem,
    ScalarNode,
    SequenceNode,
    read_file,
)

_VARIABLE = re.compile(r"\$\{(\w+)\}")

_RUN: KeyPath = ("tokenizer", "run")


def expand(text: str, origin: Origin) -> Path:
    """Returns the absolute path that a task file means.

    Raises:
        ConfigurationError: A variable is not set, or the home folder is unknown.
    """
    try:
        path = Path(_VARIABLE.sub(lambda match: os.environ[match.group(1)], text)).expanduser()
    except KeyError as error:
        message = f"the environment variable {error} is not set; set it, or write the path out"
        raise ConfigurationError(message) from error
    except RuntimeError as error:
        raise ConfigurationError(f"{text!r}: {error}") from error
    return Path(os.path.normpath(origin.folder.absolute() / path))


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


def with_other_runs(tree: MappingNode) -> MappingNode:
    """Returns a merged tree with absolute paths of runs, and with the tokenizers of the run that it names.

    A run's own task has these tokenizers already: then nothing is read.

    Raises:
        ConfigurationError: A path is invalid, or is not a run with tokenizers.
    """
    node = _at(tree, _RUN)
    if isinstance(node, ScalarNode) and isinstance(node.value, str):
        try:
            absolute = replace(node, value=str(expand(node.value, node.origin)))
        except PlugformerError as error:
            raise Problem(node.origin, _RUN, str(error)).error from error
        tree = _with(tree, _RUN, absolute)
    tokenizer, run = tree.items.get("tokenizer"), _at(tree, _RUN)
    if not (
        isinstance(tokenizer, MappingNode) and isinstance(run, ScalarNode) and isinstance(run.value, str)
    ):
        return tree
    if "name" in tokenizer.items or names_sides(tokenizer):
        return tree
    try:
        block = tokenizer_of(Path(run.value))
    except PlugformerError as error:
        raise Problem(run.origin, _RUN, str(error)).error from error
    both = replace(block, items=block.items | tokenizer.items, keys=block.keys | tokenizer.keys)
    return _with(tree, ("tokenizer",), both)


def tokenizer_of(run: Path) -> MappingNode:
    """Returns name and options of a run's tokenizers from its task file.

    Raises:
        RunError: It is no run directory.
    """
    file = run / "task.yaml"
    if not file.is_file():
        raise RunError(f"{run} is not a run directory: it has no task.yaml")
    try:
        node = read_file(file, str(file)).items.get("tokenizer")
    except PlugformerError as error:
        raise RunError(f"{run} is not a run directory: {str(error).partition(chr(10))[0]}") from error
    if not isinstance(node, MappingNode):
        raise RunError(f"{run} is not a run directory: {file} names no tokenizer with its options")
    return node


def _at(tree: Node, path: KeyPath) -> Node | None:
    for key in path:
        if not isinstance(tree, MappingNode) or key not in tree.items:
            return None
        tree = tree.items[key]
    return tree


def _with(tree: MappingNode, path: KeyPath, node: Node) -> MappingNode:
    """Returns a tree with another node at a path, at which there is one."""
    key, *rest = path
    inner = tree.items.get(key)
    changed = _with(inner, tuple(rest), node) if rest and isinstance(inner, MappingNode) else node
    return replace(tree, items=tree.items | {key: changed})
