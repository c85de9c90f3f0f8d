"""From a task's name or file to settings that have been checked, in two passes."""

from collections.abc import Container, Iterable, Sequence

from plugformer.configuration.blocks import default_blocks
from plugformer.configuration.layers import Layers, read_layers, with_manifest
from plugformer.configuration.merging import merge_layers
from plugformer.configuration.other_runs import with_other_runs
from plugformer.configuration.overrides import read_overrides
from plugformer.configuration.resolved import ResolvedTask
from plugformer.configuration.structure import check_structure
from plugformer.documents import Mapping
from plugformer.errors import ConfigurationError
from plugformer.kinds import Kind
from plugformer.problems import Key, report
from plugformer.registry import Registry


def resolve(
    name_or_file: str,
    overrides: Sequence[str] = (),
    registry: Registry | None = None,
    kinds: Container[str] = tuple(Kind),
) -> ResolvedTask:
    """Reads a task with everything that it extends, and checks its structure and names; imports no component.

    Args:
        name_or_file: A registered task, or a file: a value with a slash or ending in `.yaml`.
        overrides: Settings as `KEY=VALUE`, applied last.
        registry: What is installed; discovered if None.
        kinds: Those of the components that must be known.

    Raises:
        RegistryError: There is no such task.
        ConfigurationError: A file or an override is wrong; all problems together, each with its place.
    """
    last = read_overrides(overrides)
    return resolve_changed(name_or_file, [last] if last.items else [], registry, kinds)


def resolve_changed(
    name_or_file: str,
    changes: Iterable[Mapping],
    registry: Registry | None = None,
    kinds: Container[str] = tuple(Kind),
) -> ResolvedTask:
    """Does what `resolve` does, with changes that have been read already; a later one goes above the others.

    Args:
        name_or_file: As of `resolve`.
        changes: Trees like those of task files.
        registry: What is installed; discovered if None.
        kinds: Those of the components that must be known.

    Raises:
        RegistryError: There is no such task.
        ConfigurationError: A file or a change is wrong; all problems together, each with its place.
    """
    return resolve_layers(read_layers(name_or_file, registry or Registry.discover()), changes, kinds)


def resolve_layers(
    layers: Layers, changes: Iterable[Mapping] = (), kinds: Container[str] = tuple(Kind)
) -> ResolvedTask:
    """Does what `resolve_changed` does, with the files of a task that have been read already.

    Raises:
        ConfigurationError: As of `resolve_changed`.
    """
    known, above = layers.registry, []
    for change in changes:
        tree, known = with_manifest(change, known)
        above.append(tree)
    merged, notices = merge_layers([default_blocks(), *layers.trees, *above])
    tree = with_other_runs(merged)
    return ResolvedTask(check_structure(tree, known, kinds), known, notices, tree)


def located(checked: ResolvedTask, found: Iterable[tuple[tuple[Key, ...], str]]) -> ResolvedTask:
    """Returns a task that has no problem; raises all of them otherwise."""
    problems = []
    for path, message in found:
        sentence, _, hint = message.partition("\n")
        problems.append(checked.problem(path, sentence, hint))
    if problems:
        raise ConfigurationError(report(problems))
    return checked
