"""`plugformer list`: what is installed, read from manifests alone; with --load also imported."""

import json
from itertools import chain, groupby
from typing import Annotated, Any

import typer

from plugformer.commands.parameters import AsJson, LocalManifest, installed
from plugformer.commands.printing import print_table, print_text, terminal_width
from plugformer.errors import RegistryError, nearest
from plugformer.kinds import Kind
from plugformer.registry import Entry, EntryKind, EntryState, Registry
from plugformer.terminal import aligned, clipped, display_width, printable

KINDS: tuple[str, ...] = (*(kind.value for kind in Kind), *(other.value for other in EntryKind))

EXAMPLES = (
    "plugformer list attention",
    "plugformer list --load",
    "plugformer list --json | jq '.[] | select(.state != \"ready\")'",
)


def command(
    ctx: typer.Context,
    kind: Annotated[str | None, typer.Argument(metavar="KIND", help=f"One of: {', '.join(KINDS)}.")] = None,
    load: Annotated[
        bool, typer.Option("--load", help="Also import everything, each distribution in its own process.")
    ] = False,
    as_json: AsJson = False,
    registry: LocalManifest = None,
) -> None:
    """Show what is installed, and what cannot be used.

    Reads manifests only; no plugin is imported, unless --load asks for it. A terminal gets one block for each
    kind, a pipe one line for each entry.

    With --json each entry is {"kind", "name", "distribution", "version", "state", "summary", "source"}.
    """
    known = installed(ctx, registry)
    entries = _chosen(known, kind)
    if load:
        from plugformer.commands.probing import probed

        entries = probed(entries, known)
    print_entries(entries, as_json=as_json)


def print_entries(entries: list[Entry], *, as_json: bool) -> None:
    """Prints entries as `list` does."""
    if as_json:
        typer.echo(json.dumps([as_record(entry) for entry in entries], ensure_ascii=False, indent=2))
    elif terminal_width():
        _print_blocks(entries)
    else:
        header = ("kind", "name", "distribution", "version", "state", "summary")
        print_table(header, [_cells(entry) for entry in entries])


def as_record(entry: Entry) -> dict[str, Any]:
    """Returns an entry as scripts read it; a state other than ready says why."""
    return {
        "kind": str(entry.kind),
        "name": entry.name,
        "distribution": entry.distribution,
        "version": entry.version,
        "state": f"{entry.state}: {entry.cause}" if entry.cause else str(entry.state),
        "summary": entry.summary,
        "source": entry.source,
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
    return str(entry.kind), entry.name, *owner, str(entry.state), text


def _print_blocks(entries: list[Entry]) -> None:
    """Prints each kind under its name, and why something cannot be used below it."""
    width = terminal_width()
    names = max((display_width(entry.name) for entry in entries), default=0)
    owners = max((display_width(str(entry.owner)) for entry in entries), default=0)
    for kind, block in groupby(entries, key=lambda entry: entry.kind):
        typer.secho(str(kind), bold=True)
        for entry in block:
            columns = [aligned(entry.name, names), aligned(str(entry.owner), owners), f"{entry.state:5}"]
            line = "  ".join(["", *columns, entry.summary])
            typer.secho(clipped(printable(line.rstrip()), width), fg=_COLORS[entry.state])
            for cause in entry.cause.splitlines():
                print_text(cause, indent=6)


_COLORS = {
    EntryState.READY: None,
    EntryState.CONFLICT: "yellow",
    EntryState.QUARANTINED: "red",
    EntryState.BROKEN: "red",
}
