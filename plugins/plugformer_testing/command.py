"""`plugformer check`: the contract suite against installed components."""

import json
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plugformer.errors import ConfigurationError, RegistryError, nearest
from plugformer.registry import Entry, EntryState, Kind, Registry
from plugformer_cli import (
    AsJson,
    LocalManifest,
    installed,
    print_text,
)

if TYPE_CHECKING:
    from plugformer_testing import Report

EXAMPLES = (
    "plugformer check attention/gqa --set kv_heads=2",
    "plugformer check plugformer-differential",
    "plugformer check local --registry examples/squared_relu/registry.yaml",
)

Options = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="OPTION=VALUE", help="Give the component an option; repeatable."),
]


def command(
    ctx: typer.Context,
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[KIND/NAME|DISTRIBUTION]",
            help="One component, or all of a distribution (local: of --registry); else all built in.",
        ),
    ] = None,
    settings: Options = None,
    tracebacks: Annotated[
        bool, typer.Option("--traceback", help="Also print the traceback of what a component raised.")
    ] = False,
    as_json: AsJson = False,
    registry: LocalManifest = None,
) -> None:
    """Run the contract tests against components.

    Prints for each component how many checks passed, and what is wrong with the smallest case that shows it.
    PARTIAL means that checks were skipped, for the reasons given. The exit status is 1 if a check failed.
    """
    known = installed(ctx, registry)
    entries = _chosen(known, what)
    options = _options(settings or [], entries)
    width = max(len(f"{entry.kind}/{entry.name}") for entry in entries)
    records = []
    for report in _reports(known, entries, options):
        records.append(report.as_json())
        if not as_json:
            _print(report, width, tracebacks=tracebacks)
    if as_json:
        typer.echo(json.dumps(records, ensure_ascii=False, indent=2))
    elif len(records) > 1:
        _print_total(records)
    if not all(record["passed"] for record in records):
        raise typer.Exit(1)


def _chosen(registry: Registry, what: str | None) -> list[Entry]:
    """Returns the components that are meant.

    Raises:
        RegistryError: There is no such component or distribution, or it cannot be used.
    """
    kind, slash, name = (what or "").partition("/")
    if slash:
        return [registry.find(kind, name)]
    entries = [] if what == "" else registry.offered_by(what or "plugformer")
    offered = [entry for entry in entries if entry.kind in list(Kind)]
    usable = [entry for entry in offered if entry.state is not EntryState.QUARANTINED]
    if usable:
        return usable
    if broken := [entry for entry in entries if entry.state is EntryState.QUARANTINED]:
        raise RegistryError(f"{broken[0].owner} is quarantined: {broken[0].cause}")
    # A component may be meant whose name, or whose kind, was given alone.
    offered = registry.entries()
    components = (f"{each.kind}/{each.name}" for each in offered if what in (each.name, each.kind))
    distributions = sorted({entry.distribution for entry in offered})
    component = next(components, None)
    meant = f" (did you mean {component!r}?)" if component else nearest(str(what), distributions)
    raise RegistryError(
        f"no distribution {what!r} offers components{meant}\n"
        f"known: {', '.join(distributions)}; a single component is written KIND/NAME"
    )


def _options(settings: list[str], entries: list[Entry]) -> dict[str, Any]:
    if not settings:
        return {}
    if len(entries) > 1:
        raise ConfigurationError("--set gives options to one component: name it as KIND/NAME")
    from plugformer.configuration import plain, read_overrides

    options: dict[str, Any] = plain(read_overrides(settings))
    return options


def _reports(registry: Registry, entries: list[Entry], options: dict[str, Any]) -> Iterator["Report"]:
    """Checks one component after the other; one that cannot be imported does not stop the others."""
    from plugformer_testing.runner import report, unloadable
    from plugformer_testing.subject import Subject

    for entry in entries:
        path = f"{Kind(entry.kind)}/{entry.distribution}:{entry.name}"
        try:
            subject = Subject.of(path, registry, options=options)
        except RegistryError as error:
            yield unloadable(entry, error)
        else:
            yield report(subject)


def _print(report: "Report", width: int, *, tracebacks: bool) -> None:
    from plugformer_testing import Status

    owner = f"{report.distribution} {report.version}".rstrip()
    color = "red" if not report.passed else "yellow" if report.of(Status.SKIPPED) else None
    typer.secho(f"{report.subject:{width}}  {report.summary()}  ({owner})", fg=color)
    for outcome in (*report.of(Status.FAILED), *report.of(Status.EXPECTED_FAILURE)):
        print_text(f"{outcome.status}  {outcome}", indent=4)
        if tracebacks and outcome.traceback:
            typer.echo(textwrap.indent(outcome.traceback.rstrip(), " " * 8))
    for outcome in report.of(Status.PASSED):
        if outcome.message:
            print_text(f"note  {outcome}", indent=4)
    reasons: dict[str, list[str]] = {}
    for outcome in report.of(Status.SKIPPED):
        reasons.setdefault(outcome.message, []).append(outcome.check)
    for reason, checks in reasons.items():
        others = len(report.outcomes) - len(checks)
        which = {0: "all", 1: "all others"}.get(others) or ", ".join(checks)
        print_text(f"skipped  {which}: {reason}", indent=4)


def _print_total(records: list[dict[str, Any]]) -> None:
    partial = sum(record["counts"]["skipped"] > 0 for record in records)
    failed = sum(not record["passed"] for record in records)
    checks, passed = (sum(record["counts"][key] for record in records) for key in ("checks", "passed"))
    parts = [f"\n{len(records)} components, {passed} of {checks} checks passed"]
    parts += [f"{failed} with failures"] * bool(failed) + [f"{partial} checked in part only"] * bool(partial)
    typer.echo("; ".join(parts))
