"""Whether what is listed can be loaded: each plugin is tried in a process of its own, with a time limit.

A plugin may print, crash, exit or never come back: that ends its own process only.
"""

import multiprocessing
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess

from plugformer.errors import RegistryError
from plugformer.registry import Entry, EntryKind, Owner, Registry, State
from plugformer.registry.discovery import BUILT_IN

AT_ONCE = 4
"""Processes that run together."""


def probed(entries: Sequence[Entry], registry: Registry, limit: float) -> list[Entry]:
    """Returns the entries, those broken that cannot be imported or, where no option is needed, constructed.

    Args:
        entries: What to try; what is quarantined stays as it is.
        registry: Where they come from.
        limit: Seconds that all entries of one plugin together may take.
    """
    usable = [entry for entry in entries if entry.state is not State.QUARANTINED]
    plugins: dict[Owner, list[Entry]] = defaultdict(list)
    for entry in usable:
        if entry.kind not in (EntryKind.TASK, EntryKind.PLUGIN):
            plugins[entry.owner].append(entry)
    causes = {entry: _misplaced(entry, registry) for entry in usable if entry.kind is EntryKind.TASK}
    causes |= dict(_tried(plugins.values(), limit, construct=True))
    return [_marked(entry, causes.get(entry, "")) for entry in entries]


def import_faults(entries: Iterable[Entry], limit: float) -> dict[Entry, str]:
    """Returns of components that cannot be imported why, each module tried in a process of its own.

    Args:
        entries: The components; what is built in is trusted.
        limit: Seconds that a module may take.
    """
    modules: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.owner != BUILT_IN:
            modules[entry.target.partition(":")[0]].append(entry)
    return {entry: why for entry, why in _tried(modules.values(), limit, construct=False) if why}


@dataclass(eq=False)
class Attempt:
    """A process that tries entries: those of one plugin, or of one module.

    Attributes:
        entries: What it tries, in this order.
        process: The process.
        results: Where it says that it has begun, then how each entry did.
        limit: Seconds that it has.
        deadline: When they are over. They begin when it does, with everything of ours imported.
        causes: Why each entry so far is broken, or an empty text.
    """

    entries: list[Entry]
    process: BaseProcess
    results: Connection
    limit: float
    deadline: float = inf
    causes: list[str] = field(default_factory=list)

    def goes_on(self) -> bool:
        """Takes what the process has said; returns whether there is more to wait for."""
        try:
            while self.results.poll():
                said = self.results.recv_bytes().decode()
                if self.deadline == inf:
                    self.deadline = time.monotonic() + self.limit
                else:
                    self.causes.append(said)
        except (EOFError, OSError):
            return False
        return len(self.causes) < len(self.entries) and time.monotonic() < self.deadline

    def finish(self) -> Iterator[tuple[Entry, str]]:
        """Ends the process; yields why each entry is broken, or an empty text."""
        late = time.monotonic() >= self.deadline
        if not late:
            self.process.join(1)
        self.process.kill()
        self.process.join()
        self.results.close()
        yield from zip(self.entries, self.causes, strict=False)
        untried = self.entries[len(self.causes) :]
        if untried:
            end = f"did not finish in {self.limit:g} s" if late else _exit_reason(self.process.exitcode or 0)
            why = f"loading {untried[0].target} {end}"
            yield untried[0], why
            yield from ((entry, f"not tried, because {why}") for entry in untried[1:])


def _tried(groups: Iterable[list[Entry]], limit: float, *, construct: bool) -> Iterator[tuple[Entry, str]]:
    """Tries each group of entries in a process, some at once."""
    context = _context()
    waiting, running = list(groups), list[Attempt]()
    try:
        while waiting or running:
            while waiting and len(running) < AT_ONCE:
                running.append(_begun(context, waiting.pop(0), limit, construct=construct))
            nearest = min(attempt.deadline for attempt in running)
            left = None if nearest == inf else max(nearest - time.monotonic(), 0)
            wait([attempt.results for attempt in running], left)
            for attempt in [attempt for attempt in running if not attempt.goes_on()]:
                running.remove(attempt)
                yield from attempt.finish()
    finally:
        for attempt in running:  # somebody interrupted
            attempt.process.kill()


def _context() -> BaseContext:
    """Returns a start method for processes: forked from one that has imported torch, where that is safe."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["plugformer.commands.main", "plugformer.commands.trial"])
    return context


def _begun(context: BaseContext, entries: list[Entry], limit: float, *, construct: bool) -> Attempt:
    results, said = context.Pipe(duplex=False)
    process: BaseProcess = context.Process(target=_try, args=(entries, said, construct))  # type: ignore[attr-defined]  # every context has it
    process.start()
    said.close()
    return Attempt(entries, process, results, limit)


def _try(entries: list[Entry], said: Connection, construct: bool) -> None:
    from plugformer.commands.trial import try_entries  # imports torch, which the listing process never needs

    try_entries(entries, said, construct=construct)


def _exit_reason(status: int) -> str:
    if status >= 0:
        return f"ended the process with status {status}"
    names = {each.value: each.name for each in signal.Signals}  # those of real time have none
    return f"ended the process by {names.get(-status, f'signal {-status}')}"


def _misplaced(entry: Entry, registry: Registry) -> str:
    """Returns the fault of a task file's location, or an empty text."""
    try:
        registry.find_task(f"{entry.distribution}:{entry.name}")
    except RegistryError as error:
        return str(error)
    return ""


def _marked(entry: Entry, cause: str) -> Entry:
    if not cause:
        return entry
    return replace(entry, state=State.BROKEN, cause="\n".join(filter(None, [entry.cause, cause])))
