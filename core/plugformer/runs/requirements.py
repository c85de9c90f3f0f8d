"""What a run needs installed, and how to get what is missing: by its lock, before anything is loaded."""

import re
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from plugformer.configuration import ResolvedTask, check_components, resolve
from plugformer.documents import read_file
from plugformer.errors import ConfigurationError, RunError
from plugformer.registry import Owner, Registry
from plugformer.registry.discovery import LOCAL
from plugformer.runs.directory import RunDirectory
from plugformer.runs.overrides import AFTER_TRAINING, changeable

_DISTRIBUTION = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION = re.compile(r"[A-Za-z0-9.!+]+")


def resolve_run(
    directory: RunDirectory, registry: Registry | None = None, overrides: Sequence[str] = ()
) -> ResolvedTask:
    """Returns the task of a run, with its components imported.

    Args:
        directory: The run.
        registry: What is installed; discovered if None.
        overrides: `KEY=VALUE` settings of decoding and evaluation.

    Raises:
        RunError: A component of the run is not installed; the message names its distribution, as locked, and
            the command that installs it. Or the task names a manifest or another task, which no run does:
            what is imported is what the user has installed or names, never what a directory asks for.
        ConfigurationError: The task cannot be used for another reason, or an override belongs to what was
            trained.
    """
    known = registry or Registry.discover()
    _refuse_references(directory)
    changed = changeable(overrides, AFTER_TRAINING)
    try:
        return check_components(resolve(str(directory.task), changed, known))
    except ConfigurationError:
        if absent := _absent(directory.lock()["components"], known):
            raise RunError(_message(directory, absent)) from None
        raise


def _refuse_references(directory: RunDirectory) -> None:
    tree = read_file(directory.task, str(directory.task))
    if named := sorted({"extends", "registry"} & {str(key) for key in tree.items}):
        raise RunError(
            f"{directory.task} has the key {named[0]!r}, which Plugformer never writes into a run\n"
            "do not trust the run; if it is yours, remove the line and name the manifest with --registry FILE"
        )


def _absent(components: dict[str, Any], registry: Registry) -> dict[str, Owner]:
    """Returns the locked components of which nothing is known, each with the owner that the lock names."""
    known = {(entry.kind, entry.name) for entry in registry.entries()}
    return {
        path: _owner(record)
        for path, record in components.items()
        if (path.partition("/")[0], path.partition("/")[2].rpartition(":")[2]) not in known
    }


def _owner(record: object) -> Owner:
    """Returns who a lock says offers a component; what is no name or version is not repeated to anybody."""
    fields = record if isinstance(record, dict) else {}
    name, number = str(fields.get("distribution") or ""), str(fields.get("version") or "")
    if not _DISTRIBUTION.fullmatch(name):
        return Owner("unknown")
    return Owner(name, number if _VERSION.fullmatch(number) else "")


def _message(directory: RunDirectory, absent: dict[str, Owner]) -> str:
    lines = [f"{directory.path} was made with components that are not installed:"]
    lines += [f"  {path} of {_described(owner)}" for path, owner in sorted(absent.items())]
    owners = sorted(
        {owner for owner in absent.values() if owner.distribution not in (LOCAL, "unknown")}, key=str
    )
    if owners:
        pinned = " ".join(f"{owner.distribution}=={owner.version}".removesuffix("==") for owner in owners)
        lines.append(f"if you trust {'it' if len(owners) == 1 else 'them'}: pip install {pinned}")
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
