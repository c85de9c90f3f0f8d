"""`plugformer list`: what is installed, read from manifests alone; with --load also tried.

Beside each component stands how its last `plugformer check` ended, which is kept for each user. A result
belongs to the source that was checked: once that has changed, the result is stale. To find out, nothing is
imported.
"""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import chain, groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from plugformer.cache import cache_folder
from plugformer.commands.parameters import AsJson, LocalManifest, installed
from plugformer.commands.printing import print_table, print_text, terminal_width
from plugformer.errors import RegistryError, RunError, nearest
from plugformer.kinds import Kind
from plugformer.registry import Entry, EntryKind, Registry, State, source_hash
from plugformer.terminal import aligned, clipped, display_width, printable

KINDS: tuple[str, ...] = (*(kind.value for kind in Kind), *(other.value for other in EntryKind))

EXAMPLES = (
    "plugformer list attention",
    "plugformer list --load",
    "plugformer list --json | jq '.[] | select(.state != \"ready\")'",
)

_WIDEST = 30
"""Characters of a result in a list."""


def command(
    ctx: typer.Context,
    kind: Annotated[str | None, typer.Argument(metavar="KIND", help=f"One of: {', '.join(KINDS)}.")] = None,
    load: Annotated[
        bool, typer.Option("--load", help="Also try to load everything, each plugin in its own process.")
    ] = False,
    limit: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="With --load: how long each plugin may take.")
    ] = 20.0,
    as_json: AsJson = False,
    registry: LocalManifest = None,
) -> None:
    """Show what is installed, and what cannot be used.

    Reads manifests only; no plugin is imported, unless --load asks for it. Beside a component stands how its
    last `plugformer check` ended; stale means that its source has changed since. A terminal gets one block
    for each kind, a pipe one line for each entry.

    With --json each entry is {"kind", "name", "distribution", "version", "state", "summary", "source",
    "contract"}; contract is null where nothing was checked, else {"summary", "passed", "stale", "plugformer",
    "day", "options"}.
    """
    known = installed(ctx, registry)
    entries = _chosen(known, kind)
    if load:
        from plugformer.commands.probing import probed

        entries = probed(entries, known, limit)
    print_entries(entries, as_json=as_json)


def print_entries(entries: list[Entry], *, as_json: bool) -> None:
    """Prints entries as `list` does."""
    if as_json:
        typer.echo(json.dumps([as_record(entry) for entry in entries], ensure_ascii=False, indent=2))
    elif terminal_width():
        _print_blocks(entries)
    else:
        header = ("kind", "name", "distribution", "version", "state", "contract", "summary")
        print_table(header, [_cells(entry) for entry in entries])


def as_record(entry: Entry) -> dict[str, Any]:
    """Returns an entry as scripts read it; a state other than ready says why."""
    checked = last_check(entry)
    return {
        "kind": str(entry.kind),
        "name": entry.name,
        "distribution": entry.distribution,
        "version": entry.version,
        "state": f"{entry.state}: {entry.cause}" if entry.cause else str(entry.state),
        "summary": entry.summary,
        "source": entry.source,
        "contract": checked and checked.as_json(),
    }


def _chosen(registry: Registry, kind: str | None) -> list[Entry]:
    if kind is not None and kind not in KINDS:
        raise RegistryError(f"unknown kind {kind!r}{nearest(kind, KINDS)}\nknown: {', '.join(KINDS)}")
    components = (entry for entry in registry.entries() if entry.kind is not EntryKind.PLUGIN)
    others = (registry.tasks(), registry.commands(), registry.hooks(), registry.plugins())
    return [entry for entry in chain(components, *others) if kind in (None, entry.kind)]


def _cells(entry: Entry) -> tuple[str, ...]:
    text = "; ".join([*filter(None, [entry.summary]), *entry.cause.splitlines()])
    owner = (entry.distribution, entry.version)
    return str(entry.kind), entry.name, *owner, str(entry.state), _contract(entry), text


def _contract(entry: Entry) -> str:
    checked = last_check(entry)
    return checked.brief if checked else ""


def _print_blocks(entries: list[Entry]) -> None:
    """Prints each kind under its name, and why something cannot be used below it."""
    width = terminal_width()
    names = max((display_width(entry.name) for entry in entries), default=0)
    owners = max((display_width(str(entry.owner)) for entry in entries), default=0)
    contracts = {entry: _contract(entry) for entry in entries}
    checked = max(map(len, contracts.values()), default=0)
    for kind, block in groupby(entries, key=lambda entry: entry.kind):
        typer.secho(str(kind), bold=True)
        for entry in block:
            columns = [aligned(entry.name, names), aligned(str(entry.owner), owners), f"{entry.state:5}"]
            if checked:  # no column where nothing was
                columns.append(f"{contracts[entry]:{checked}}")
            line = "  ".join(["", *columns, entry.summary])
            typer.secho(clipped(printable(line.rstrip()), width), fg=_COLORS[entry.state])
            for cause in entry.cause.splitlines():
                print_text(cause, indent=6)


_COLORS = {State.READY: None, State.CONFLICT: "yellow", State.QUARANTINED: "red", State.BROKEN: "red"}


@dataclass(frozen=True, slots=True)
class LastCheck:
    """A saved result.

    Attributes:
        summary: How many checks passed, in words.
        passed: Whether none failed.
        stale: Whether the component's source has changed since.
        plugformer: The version of the suite.
        day: When, as an ISO date.
        options: That were given, `name=value` each; an empty text if none were.
        brief: The result in a few words: `42 of 42`, `3 failed` or `stale`, and the options if any.
    """

    summary: str
    passed: bool
    stale: bool
    plugformer: str
    day: str
    options: str
    brief: str

    def __str__(self) -> str:
        stale = "; stale: the source has changed since" if self.stale else ""
        given = f" with {self.options}" if self.options else ""
        return f"{self.summary}{given}, plugformer {self.plugformer}, {self.day}{stale}"

    def as_json(self) -> dict[str, str | bool]:
        """Returns the listing as data, for scripts."""
        return {name: value for name, value in asdict(self).items() if name != "brief"}


def save_check(record: dict[str, Any]) -> None:
    """Keeps a report (its `as_json`) as the last one of its component, unless the place is read-only."""
    from plugformer.runs.files import write_json  # imports more than a listing needs

    file = _file(record["distribution"], record["subject"])
    with suppress(OSError, RunError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, {**record, "day": datetime.now(UTC).date().isoformat()})


def last_check(entry: Entry) -> LastCheck | None:
    """Returns the last result of a component; None if there is none that can be read."""
    if entry.kind not in list(Kind) or entry.state is State.QUARANTINED:
        return None
    file = _file(entry.distribution, f"{entry.kind}/{entry.name}")
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        checks, right, wrong = (record["counts"][name] for name in ("checks", "passed", "failed"))
        summary, plugformer, day = (str(record[name]) for name in ("summary", "plugformer", "day"))
        passed, source = bool(record["passed"]), record["source"]
        options = ", ".join(f"{name}={json.dumps(value)}" for name, value in record["options"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    stale = source != source_hash(entry)
    brief = f"{right} of {checks}" if passed else f"{wrong} failed"
    brief = clipped(f"{brief} ({options})", _WIDEST) if options else brief
    return LastCheck(summary, passed, stale, plugformer, day, options, "stale" if stale else brief)


def _file(distribution: str, subject: str) -> Path:
    return cache_folder() / "checks" / distribution / f"{subject}.json"
