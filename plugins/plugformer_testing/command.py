"""`plugformer check`: has pytest run the contract tests of installed components."""

from pathlib import Path
from typing import Annotated, Any

import typer

from plugformer_cli import LocalManifest, installed

EXAMPLES = (
    "plugformer check attention/gqa --set kv_heads=2",
    "plugformer check attention/gqa -- -k padding --pdb",
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
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- ARGUMENT]", help="Arguments of pytest, such as -k or --junitxml."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="OPTION=VALUE", help="Give the component an option; repeatable."),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A run whose examples and sizes the checks of a callback take."),
    ] = None,
    registry: LocalManifest = None,
) -> None:
    """Run the contract tests against components.

    Pytest runs them, one test for each check of a component. A failure says what is wrong, and the smallest
    case that shows it; a skipped check has a reason. A component, command or callback that cannot be imported
    fails with the cause. The exit status is that of pytest: 1 if a check failed.
    """
    from plugformer.configuration.overrides import read_overrides
    from plugformer.errors import needing

    with needing("test", "plugformer check"):
        from plugformer_testing.checks import offered, parameters, run_pytest

    known = installed(ctx, registry)
    kind, slash, name = (what or "").partition("/")
    entries = [known.find(kind, name)] if slash else offered(known, "plugformer" if what is None else what)
    options: dict[str, Any] = read_overrides(settings or []).value
    raise typer.Exit(run_pytest(parameters(known, entries, options, run), arguments or ()))
