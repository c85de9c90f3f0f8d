"""Other runs that a task names: where they are, and the tokenizers that it takes over from one."""

from dataclasses import replace
from pathlib import Path

from plugformer.configuration.blocks import names_sides
from plugformer.configuration.paths import expand
from plugformer.documents import Mapping, Node, Scalar, read_file
from plugformer.errors import ConfigurationError, PlugformerError, RunError
from plugformer.problems import Key, Problem, report

_RUNS: tuple[tuple[Key, ...], ...] = (("tokenizer", "run"), ("model", "initialize_from", "run"))
"""Keys of the core whose values are run directories."""


def with_other_runs(tree: Mapping) -> Mapping:
    """Returns a merged tree with absolute paths of runs, and with the tokenizers of the one that it names.

    A run's own task has these tokenizers already: nothing is read then.

    Raises:
        ConfigurationError: A path means none, or there is no run whose tokenizers could be read.
    """
    for path in _RUNS:
        try:
            tree = _changed(tree, path)
        except PlugformerError as error:
            message, _, hint = str(error).partition("\n")
            node = _at(tree, path)
            raise ConfigurationError(
                report([Problem(None if node is None else node.origin, path, message, hint)])
            ) from error
    tokenizer, run = tree.items.get("tokenizer"), _at(tree, _RUNS[0])
    if not (isinstance(tokenizer, Mapping) and isinstance(run, Scalar) and isinstance(run.value, str)):
        return tree
    if "name" in tokenizer.items or names_sides(tokenizer):
        return tree
    try:
        theirs = tokenizer_of(Path(run.value))
    except PlugformerError as error:
        raise ConfigurationError(report([Problem(run.origin, _RUNS[0], str(error))])) from error
    both = replace(theirs, items=theirs.items | tokenizer.items, keys=theirs.keys | tokenizer.keys)
    return replace(tree, items=tree.items | {"tokenizer": both})


def tokenizer_of(run: Path) -> Mapping:
    """Returns name and options of a run's tokenizers as its task says them; nothing else is read.

    Raises:
        RunError: It is no run directory.
    """
    file = run / "task.yaml"
    try:
        node = read_file(file, str(file)).items.get("tokenizer")
    except PlugformerError as error:
        raise RunError(f"{run} is not a run directory: {str(error).partition(chr(10))[0]}") from error
    if not isinstance(node, Mapping):
        raise RunError(f"{run} is not a run directory: {file} names no tokenizer with its options")
    return node


def _at(tree: Node, path: tuple[Key, ...]) -> Node | None:
    for key in path:
        if not isinstance(tree, Mapping) or key not in tree.items:
            return None
        tree = tree.items[key]
    return tree


def _changed(tree: Mapping, path: tuple[Key, ...]) -> Mapping:
    """Returns a tree in which the path at `path`, if one is written there, is absolute."""
    key, *rest = path
    node = tree.items.get(key)
    if rest and isinstance(node, Mapping):
        return replace(tree, items=tree.items | {key: _changed(node, tuple(rest))})
    if rest or not (isinstance(node, Scalar) and isinstance(node.value, str)):
        return tree
    absolute = replace(node, value=str(expand(node.value, node.origin)))
    return replace(tree, items=tree.items | {key: absolute})
