"""`plugformer list`: what is installed, read from manifests alone."""

from itertools import chain
from typing import Annotated, Any

import typer

from plugformer.errors import RegistryError, nearest
from plugformer.registry import Entry, EntryKind, Kind
from plugformer_cli.options import AsJson, LocalManifest, installed
from plugformer_cli.printing import print_json, print_table, print_text

KINDS = (*(kind.value for kind in Kind), *(kind.value for kind in EntryKind))

EXAMPLES = (
    "plugformer list attention",
    "plugformer list --json > components.json",
)


def command(
    ctx: typer.Context,
    kind: Annotated[str | None, typer.Argument(metavar="KIND", help=f"One of: {', '.join(KINDS)}.")] = None,
    as_json: AsJson = False,
    registry: LocalManifest = None,
) -> None:
    """List installed components, tasks, commands and plugins.

    Reads manifests only and imports no plugin. The state of an entry is ready, in conflict or quarantined;
    the causes are below the table. `plugformer check` also imports the components of a plugin.

    With --json each entry is {"kind", "name", "distribution", "version", "state", "summary", "source"}.
    """
    known = installed(ctx, registry)
    if kind is not None and kind not in KINDS:
        raise RegistryError(f"unknown kind {kind!r}{nearest(kind, KINDS)}\nknown: {', '.join(KINDS)}")
    components = (entry for entry in known.entries() if entry.kind is not EntryKind.PLUGIN)
    entries = chain(components, *map(known.entries, ("task", "command", "callbacks")), known.plugins())
    print_entries([entry for entry in entries if kind in (None, entry.kind)], as_json=as_json)


def print_entries(entries: list[Entry], *, as_json: bool) -> None:
    """Prints entries as `list` does."""
    if as_json:
        print_json([as_record(entry) for entry in entries], indent=2)
        return
    header = ("kind", "name", "distribution", "version", "state", "summary")
    rows = [
        (str(entry.kind), entry.name, entry.distribution, entry.version, str(entry.state), entry.summary)
        for entry in entries
    ]
    print_table(header, rows)
    causes = {entry.cause: entry for entry in entries if entry.cause}
    for cause, entry in causes.items():
        name = "" if entry.kind is EntryKind.PLUGIN else f"{entry.kind} {entry.name!r} of "
        typer.echo(f"\n{name}{entry.owner} is {entry.state}:")
        print_text(cause, indent=2)


def as_record(entry: Entry) -> dict[str, Any]:
    """Returns an entry as scripts read it; a state other than ready includes the cause."""
    return {
        "kind": str(entry.kind),
        "name": entry.name,
        "distribution": entry.distribution,
        "version": entry.version,
        "state": f"{entry.state}: {entry.cause}" if entry.cause else str(entry.state),
        "summary": entry.summary,
        "source": entry.source,
    }
