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
    "plugformer list attention --available",
)


def command(
    ctx: typer.Context,
    kind: Annotated[str | None, typer.Argument(metavar="KIND", help=f"One of: {', '.join(KINDS)}.")] = None,
    available: Annotated[
        bool, typer.Option("--available", help="List what plugins offer that are known and not installed.")
    ] = False,
    as_json: AsJson = False,
    registry: LocalManifest = None,
) -> None:
    """List installed components, tasks, commands and plugins.

    Reads manifests only and imports no plugin. The state of an entry is ready, in conflict or quarantined;
    the causes are below the table. `plugformer check` also imports the components of a plugin.

    With --json each entry is {"kind", "name", "distribution", "version", "state", "summary", "source"}.

    --available reads the index of plugins that comes with this version of Plugformer, without the network;
    with --json it prints the distributions as the index has them.
    """
    known = installed(ctx, registry)
    if kind is not None and kind not in KINDS:
        raise RegistryError(f"unknown kind {kind!r}{nearest(kind, KINDS)}\nknown: {', '.join(KINDS)}")
    if available:
        print_available(known.available(), kind, as_json=as_json)
        return
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


def print_available(plugins: list[dict[str, Any]], kind: str | None, *, as_json: bool) -> None:
    """Prints what distributions in the index of plugins offer, of one kind or of all."""
    for plugin in plugins:
        plugin["parts"] = [part for part in plugin["parts"] if kind in (None, "plugin", part["kind"])]
    plugins = [plugin for plugin in plugins if plugin["parts"]]
    if as_json:
        print_json(plugins, indent=2)
        return
    rows = [
        (
            part["kind"],
            part["name"],
            plugin["name"],
            plugin["stage"],
            _checked(part["checks"]),
            part["summary"],
        )
        for plugin in plugins
        for part in plugin["parts"]
    ]
    rows.sort(key=lambda row: (KINDS.index(row[0]), row))
    print_table(("kind", "name", "distribution", "stage", "checks", "summary"), rows)
    typer.echo()
    for plugin in plugins:
        typer.echo(f"{plugin['name']} {plugin['version']}: pip install {plugin['install']}")


def _checked(checks: dict[str, dict[str, int]]) -> str:
    """Returns how the checks ended with the newest version of Plugformer that they were run with."""
    ended = next((checks[tried] for tried in ("main", "newest", "oldest") if tried in checks), None)
    if ended is None:
        return "not run"
    return f"{ended['failed']} failed" if ended["failed"] else f"{ended['passed']} passed"


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
