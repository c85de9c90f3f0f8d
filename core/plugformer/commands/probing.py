"""Whether what is listed can be imported: each distribution is tried in a process, which it may end."""

import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path

from plugformer.errors import RegistryError
from plugformer.kinds import Kind
from plugformer.registry import Entry, EntryKind, EntryState, Registry
from plugformer.registry.loading import load_attribute, load_component, load_module


def probed(entries: Sequence[Entry], registry: Registry) -> list[Entry]:
    """Returns the entries, those broken that cannot be imported; quarantined ones stay as they are."""
    usable = [entry for entry in entries if entry.state is not EntryState.QUARANTINED]
    distributions = list(dict.fromkeys(entry.distribution for entry in usable))
    with ThreadPoolExecutor(max_workers=4) as pool:
        found = dict(zip(distributions, pool.map(partial(_tried, registry), distributions), strict=True))
    return [_marked(entry, found.get(entry.distribution, {}).get(_key(entry), "")) for entry in entries]


def _tried(registry: Registry, distribution: str) -> dict[str, str]:
    """Imports what a distribution offers, in another process; returns by kind and name why it fails."""
    command = [sys.executable, "-P", "-m", __name__, distribution, *map(str, registry.local)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (our own)
    if done.returncode:
        cause = f"importing {distribution} ended its process with status {done.returncode}"
        return {_key(entry): cause for entry in registry.offered_by(distribution)}
    causes: dict[str, str] = json.loads(done.stdout)
    return causes


def _main(distribution: str, *local: str) -> None:
    """Prints what failed as JSON; whatever plugins print goes to standard error."""
    registry = Registry.discover(*map(Path, local))
    with redirect_stdout(sys.stderr):
        causes = {_key(entry): _cause(entry, registry) for entry in registry.offered_by(distribution)}
    sys.stdout.write(json.dumps(causes))


def _cause(entry: Entry, registry: Registry) -> str:
    """Imports an entry; returns why that fails, or an empty text."""
    from plugformer.hooks.manager import HookManager  # imports torch, which the listing process does without

    try:
        match entry.kind:
            case EntryKind.TASK:
                registry.find_task(f"{entry.distribution}:{entry.name}")
            case EntryKind.HOOKS:
                HookManager([load_module(entry)], warn=lambda _: None)
            case EntryKind.COMMAND:
                load_attribute(entry)
            case Kind():
                load_component(entry, entry.kind)
    except RegistryError as error:
        return str(error)
    return ""


def _key(entry: Entry) -> str:
    return f"{entry.kind}/{entry.name}"


def _marked(entry: Entry, cause: str) -> Entry:
    if not cause:
        return entry
    return replace(entry, state=EntryState.BROKEN, cause="\n".join(filter(None, [entry.cause, cause])))


if __name__ == "__main__":
    _main(*sys.argv[1:])
