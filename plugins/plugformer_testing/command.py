"""`plugformer check`: runs the contract tests against installed components."""

import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plugformer_cli import AsJson, LocalManifest, installed, print_text

if TYPE_CHECKING:
    from plugformer_testing import CheckReport

EXAMPLES = (
    "plugformer check attention/gqa --set kv_heads=2",
    "plugformer check plugformer-differential",
    "plugformer check local --registry examples/squared_relu/registry.yaml",
)


def command(
    ctx: typer.Context,
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[KIND/NAME|DISTRIBUTION]",
            help="A component, or a distribution (local: the --registry); by default all that is built in.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="OPTION=VALUE", help="Give the component an option; repeatable."),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A run whose examples and sizes the checks of a hook take."),
    ] = None,
    tracebacks: Annotated[
        bool, typer.Option("--traceback", help="Also print the tracebacks of exceptions.")
    ] = False,
    as_json: AsJson = False,
    registry: LocalManifest = None,
) -> None:
    """Run the contract tests against components.

    Prints for each component how many checks passed, and for each failure what is wrong and the smallest case
    that shows it. PARTIAL means that checks were skipped, for the reasons given. A component, command or hook
    that cannot be imported is reported with the cause. The exit status is 1 if a check failed.
    """
    from plugformer.configuration.overrides import read_overrides
    from plugformer_testing.report import CheckReport
    from plugformer_testing.runner import check_entries, offered

    known = installed(ctx, registry)
    kind, slash, name = (what or "").partition("/")
    entries = [known.find(kind, name)] if slash else offered(known, "plugformer" if what is None else what)
    options: dict[str, Any] = read_overrides(settings or []).value
    width = max(len(f"{entry.kind}/{entry.name}") for entry in entries)
    reports = []
    for report in check_entries(known, entries, options, run):
        reports.append(report)
        if not as_json:
            _print(report, width, tracebacks=tracebacks)
    if as_json:
        typer.echo(json.dumps([report.as_json() for report in reports], ensure_ascii=False, indent=2))
    elif len(reports) > 1:
        typer.echo(f"\n{len(reports)} components: {CheckReport.of_components('', tuple(reports)).summary()}")
    if not all(reports):
        raise typer.Exit(1)


def _print(report: "CheckReport", width: int, *, tracebacks: bool) -> None:
    from plugformer_testing import Status

    owner = f"{report.distribution} {report.version}".rstrip()
    color = "red" if not report.passed else "yellow" if report.of(Status.SKIPPED) else None
    typer.secho(f"{report.component:{width}}  {report.summary()}  ({owner})", fg=color)
    for status in (Status.FAILED, Status.EXPECTED_FAILURE, Status.PASSED):
        for outcome in report.of(status):
            if outcome.message:
                print_text(f"{'note' if status is Status.PASSED else status}  {outcome}", indent=4)
            if tracebacks and outcome.traceback:
                typer.echo(textwrap.indent(outcome.traceback.rstrip(), " " * 8))
    reasons: dict[str, list[str]] = {}
    for outcome in report.of(Status.SKIPPED):
        reasons.setdefault(outcome.message, []).append(outcome.check)
    for reason, checks in reasons.items():
        which = "all" if len(checks) == len(report.outcomes) else ", ".join(checks)
        print_text(f"skipped  {which}: {reason}", indent=4)
