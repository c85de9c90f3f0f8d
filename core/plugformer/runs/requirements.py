"""How a run can be used: with what is installed, by its lock, and with settings that may still change."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from plugformer.compatibility import unfit_decoding, unfit_metrics
from plugformer.configuration import Task
from plugformer.configuration.layers import refuse_references
from plugformer.configuration.overrides import read_overrides
from plugformer.configuration.resolving import resolve_layers
from plugformer.errors import ConfigurationError, RunError
from plugformer.experiment import Experiment
from plugformer.registry import Kind, Owner, Registry
from plugformer.registry.catalog import SESSION
from plugformer.registry.discovery import LOCAL, normalized
from plugformer.runs.directory import RunDirectory
from plugformer.runs.lock import components
from plugformer.yaml_tree import Key, MappingNode, Node, Origin, Problem, dotted, read_file, report

AFTER_TRAINING = ("data", "decoding", "evaluation")
DURATION = (("training", "epochs"), ("training", "steps"), ("training", "early_stopping"))


ANSWERING = frozenset(Kind) - {
    Kind.DATA,
    Kind.HOOK,
    Kind.INITIALIZATION,
    Kind.METRIC,
    Kind.OPTIMIZER,
    Kind.SCHEDULE,
}
"""Kinds of the components that a trained model answers with."""


def changeable(overrides: Sequence[str], blocks: Sequence[str]) -> list[str]:
    """Returns `KEY=VALUE` settings that a run is to be used with, and what follows from them.

    Args:
        overrides: The settings.
        blocks: The blocks of a task that they may change.

    Raises:
        ConfigurationError: A setting is of another block: the parameters were trained under it, or it is of
            no use here.
    """
    expected = " or ".join(f"{block}.*" for block in blocks)
    allowed = [(block,) for block in blocks]
    _refuse_others(overrides, allowed, f"cannot be changed here, only {expected}", "train again to change it")
    # Training is over: what it watched need not be among the metrics any more.
    watched = ["training.monitor=loss"] if "evaluation" in read_overrides(overrides).items else []
    return [*overrides, *watched]


def duration(overrides: Sequence[str]) -> list[str]:
    """Returns `KEY=VALUE` settings that a run is to be resumed with: how long it trains.

    Args:
        overrides: The settings.

    Raises:
        ConfigurationError: A setting is another one.
    """
    expected = " or ".join(map(dotted, DURATION))
    reason = "the updates so far were made with the run's own; begin a new run to change it"
    _refuse_others(overrides, DURATION, f"cannot be changed with --resume, only {expected}", reason)
    return list(overrides)


def _refuse_others(
    overrides: Sequence[str], allowed: Sequence[tuple[Key, ...]], message: str, advice: str
) -> None:
    """Refuses settings whose keys begin with none of those that are allowed."""
    problems = [
        Problem(origin, path, message, advice)
        for path, origin in _leaves(read_overrides(overrides), ())
        if not any(path[: len(each)] == each for each in allowed)
    ]
    if problems:
        raise ConfigurationError(report(problems))


def _leaves(node: Node, path: tuple[Key, ...]) -> Iterator[tuple[tuple[Key, ...], Origin]]:
    if not isinstance(node, MappingNode):
        yield path, node.origin
        return
    for key, child in node.items.items():
        yield from _leaves(child, (*path, key))


def resolve_run(
    directory: RunDirectory,
    registry: Registry | None = None,
    overrides: Sequence[str] = (),
    kinds: Collection[Kind] = tuple(Kind),
    rows: Mapping[str, Any] | None = None,
) -> Experiment:
    """Returns the experiment of a run, with its components imported.

    Args:
        directory: The run.
        registry: What is installed; discovered if None.
        overrides: `KEY=VALUE` settings, as `changeable` or `duration` lets them pass.
        kinds: Those of the components that are needed, besides what is overridden; others need not be
            installed.
        rows: Examples in memory, by split.

    Raises:
        RunError: A component of the run is not installed; the message names its distribution, as locked. Or
            the task names a manifest or another task, which no run does: what is imported is what the user
            has installed or names, never what a directory asks for.
        ConfigurationError: The task cannot be used for another reason, such as an override that does not fit
            what it answers.
    """
    locked = directory.lock()["components"]
    known = (registry or Registry.discover()).preferring(
        {path: record["distribution"] for path, record in locked.items()}
    )
    tree = read_file(directory.task, str(directory.task))
    refuse_references(tree, directory.task)
    last = read_overrides(overrides)
    changed = {"data": Kind.DATA, "evaluation": Kind.METRIC}
    kinds = {*kinds, *(kind for block, kind in changed.items() if block in last.items)}
    resolved = resolve_layers([tree], known, [last] if last.items else [], kinds=())
    require_installed(directory, resolved.task, known, kinds)
    experiment = Experiment.from_resolved(resolved, kinds, rows)
    findings = list(unfit_decoding(experiment)) if "decoding" in last.items else []
    if "evaluation" in last.items:
        findings += unfit_metrics(experiment)
    return experiment.raise_for(findings)


def require_installed(
    directory: RunDirectory, task: Task, registry: Registry, kinds: Collection[Kind]
) -> None:
    """Makes sure that a task's components of some kinds are there.

    Args:
        directory: The run, whose lock says where they came from.
        task: The run's, with what was changed afterwards.
        registry: What is installed.
        kinds: Those of the components that are needed.

    Raises:
        RunError: One is not installed.
    """
    locked = directory.lock()["components"]
    missing = [
        f"  {path} of {Owner(record['distribution'], record['version'])}"
        for kind, name in sorted(components(task))
        if kind in kinds
        and (record := locked.get(path := f"{kind}/{name}"))
        and not _is_offered(registry, kind, name, record["distribution"])
    ]
    if missing:
        advice = "install what the run was made with, or name its local manifest with --registry FILE"
        if any(f" of {SESSION}" in line for line in missing):
            advice = "pass the classes of that session again: components={KIND: {NAME: CLASS}}"
        raise RunError(
            "\n".join(
                [f"{directory.path} was made with components that are not installed:", *missing, advice]
            )
        )


def _is_offered(registry: Registry, kind: Kind, name: str, distribution: str) -> bool:
    """Returns whether the distribution that a lock names offers a component.

    What came from a local manifest may be installed by now, and the other way round; but what another
    distribution calls by the same name is another component.
    """
    bare = name.rpartition(":")[2]
    owners = {normalized(entry.distribution) for entry in registry.entries(kind) if entry.name == bare}
    return bool(owners if distribution == LOCAL else owners & {normalized(distribution), LOCAL})
