"""How a run can be used: with what is installed, by its lock, and with settings that may still change."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from plugformer.configuration import ResolvedTask, Task, check_components
from plugformer.configuration.layers import Layers
from plugformer.configuration.overrides import read_overrides
from plugformer.configuration.resolving import resolve_layers
from plugformer.configuration.trust import refuse_references
from plugformer.documents import Mapping, Node, read_file
from plugformer.errors import ConfigurationError, RunError
from plugformer.kinds import Kind
from plugformer.model.compatibility import unfit_decoding, unfit_metrics
from plugformer.problems import Key, Origin, Problem, dotted, report
from plugformer.registry import Owner, Registry
from plugformer.registry.discovery import LOCAL, normalized
from plugformer.runs.directory import RunDirectory
from plugformer.runs.lock import components

AFTER_TRAINING = ("data", "decoding", "evaluation")
DURATION = (("training", "epochs"), ("training", "steps"), ("training", "early_stopping"))


_DISTRIBUTION = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION = re.compile(r"[A-Za-z0-9.!+]+")


ANSWERING = frozenset(Kind) - {
    Kind.DATA,
    Kind.HOOK,
    Kind.INITIALIZATION,
    Kind.METRIC,
    Kind.OPTIMIZER,
    Kind.SCHEDULE,
}
"""Kinds of the components that a trained model answers with."""

EVALUATING = ANSWERING | {Kind.DATA, Kind.METRIC}
"""Kinds of the components that it is measured with."""


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
    if not isinstance(node, Mapping):
        yield path, node.origin
        return
    for key, child in node.items.items():
        yield from _leaves(child, (*path, key))


def resolve_run(
    directory: RunDirectory,
    registry: Registry | None = None,
    overrides: Sequence[str] = (),
    kinds: Collection[Kind] = tuple(Kind),
) -> ResolvedTask:
    """Returns the task of a run, with its components imported.

    Args:
        directory: The run.
        registry: What is installed; discovered if None.
        overrides: `KEY=VALUE` settings, as `changeable` or `duration` lets them pass.
        kinds: Those of the components that are needed; others need not be installed.

    Raises:
        RunError: A component of the run is not installed; the message names its distribution, as locked. Or
            the task names a manifest or another task, which no run does: what is imported is what the user
            has installed or names, never what a directory asks for.
        ConfigurationError: The task cannot be used for another reason, such as an override that does not fit
            what it answers.
    """
    locked = directory.lock()["components"]
    owners = {path: _owner(record).distribution for path, record in locked.items()}
    known = (registry or Registry.discover()).preferring(owners)
    tree = read_file(directory.task, str(directory.task))
    refuse_references(tree, directory.task)
    layers = Layers((tree,), known)
    last = read_overrides(overrides)
    try:
        resolved = check_components(resolve_layers(layers, [last] if last.items else [], kinds), kinds)
        found = list(unfit_decoding(resolved.task, known)) if "decoding" in last.items else []
        if "evaluation" in last.items and Kind.METRIC in kinds:
            found += unfit_metrics(resolved.task, known)
        complete = resolved.raise_for(found)
    except ConfigurationError as error:
        if absent := _absent(locked, known, kinds):
            raise RunError(_message(directory, absent)) from None
        if str(directory.task) in str(error) and (others := _other_versions(locked, known, kinds)):
            raise ConfigurationError("\n".join([str(error), *others])) from None
        raise
    require_installed(directory, complete.task, known, kinds)
    return complete


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
    used = {f"{kind}/{name}" for kind, name in components(task)}
    absent = _absent(directory.lock()["components"], registry, kinds)
    if missing := {path: owner for path, owner in absent.items() if path in used}:
        raise RunError(_message(directory, missing))


def _absent(locked: dict[str, Any], registry: Registry, kinds: Collection[Kind]) -> dict[str, Owner]:
    """Returns the locked components that nobody offers who may, each with the owner that the lock names.

    What came from a local manifest may be installed by now, and the other way round; but what another
    distribution calls by the same name is another component.
    """
    offered: dict[str, set[str]] = defaultdict(set)
    for entry in registry.entries():
        offered[f"{entry.kind}/{entry.name}"].add(normalized(entry.distribution))
    absent = {}
    for path, record in locked.items():
        kind, _, name = path.partition("/")
        owner, owners = _owner(record), offered[f"{kind}/{name.rpartition(':')[2]}"]
        same = owners & {normalized(owner.distribution), LOCAL} or owner.distribution in (LOCAL, "unknown")
        if kind in kinds and not (owners and same):
            absent[path] = owner
    return absent


def _other_versions(locked: dict[str, Any], registry: Registry, kinds: Collection[Kind]) -> list[str]:
    """Returns a line about each distribution that is here in another version than the lock names."""
    here = {(f"{each.kind}/{each.name}", normalized(each.distribution)): each for each in registry.entries()}
    lines = set()
    for path, record in locked.items():
        kind, _, name = path.partition("/")
        owner = _owner(record)
        found = here.get((f"{kind}/{name.rpartition(':')[2]}", normalized(owner.distribution)))
        if kind in kinds and found is not None and owner.version and found.version != owner.version:
            lines.add(f"the run was made with {owner}, and {found.version} is installed here")
    return sorted(lines)


def _owner(record: object) -> Owner:
    """Returns a component's distribution according to a lock, without malformed names and versions."""
    fields = record if isinstance(record, dict) else {}
    name, number = str(fields.get("distribution") or ""), str(fields.get("version") or "")
    if not _DISTRIBUTION.fullmatch(name):
        return Owner("unknown")
    return Owner(name, number if _VERSION.fullmatch(number) else "")


def _message(directory: RunDirectory, absent: dict[str, Owner]) -> str:
    lines = [f"{directory.path} was made with components that are not installed:"]
    lines += [f"  {path} of {_described(owner)}" for path, owner in sorted(absent.items())]
    if any(owner.distribution not in (LOCAL, "unknown") for owner in absent.values()):
        lines.append(
            "install what the run was made with, from where you had it: a distribution of that name on a "
            "package index may be somebody else's"
        )
    if LOCAL in (owner.distribution for owner in absent.values()):
        lines.append("name the local manifest with --registry FILE or PLUGFORMER_REGISTRY")
    return "\n".join(lines)


def _described(owner: Owner) -> str:
    """Returns the owner as locked and, where the distribution is here after all, the version that is."""
    if owner.distribution == LOCAL:
        return "a local manifest"
    try:
        return f"{owner}, which {version(owner.distribution)} does not offer here"
    except PackageNotFoundError:
        return str(owner)
