"""`plugformer reproduce`: trains a study again from its report, and says what of it stands."""

import json
from pathlib import Path
from typing import Annotated

import typer

from plugformer.errors import RunError
from plugformer_cli import AsJson, LocalManifest, installed

EXAMPLES = (
    "plugformer reproduce studies/attention",
    "plugformer reproduce studies/attention/report.json --arms mha --arms mqa --seeds 1 --json",
)

REFUTED = 3
"""Exit status where a verdict does not stand."""


def command(
    ctx: typer.Context,
    report: Annotated[
        Path, typer.Argument(metavar="REPORT", help="The folder of a study, or its report.json.")
    ],
    arms: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="An arm to train again; repeatable; default: all."),
    ] = None,
    seeds: Annotated[
        list[int] | None, typer.Option(metavar="N", help="A seed to train again; repeatable; default: all.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for the trainings; reproductions/NAME if not given."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Number of trainings at a time, as of ablate.")
    ] = None,
    as_json: AsJson = False,
    registry: LocalManifest = None,
) -> None:
    """Train a study again from its report, and say whether its verdicts stand.

    Every arm is trained with the settings that the report has for it, those that were tuned among them. First
    comes what is other than in the report: versions, code, components, data. Then each score is compared with
    the recorded one, and each verdict is judged again, with the new trainings in place of the old ones. The
    same command resumes what was interrupted. The exit status is 1 if a training failed, otherwise 3 if a
    verdict does not stand.
    """
    from plugformer_ablation.command import _console, _executor
    from plugformer_ablation.judging.results import REPORT
    from plugformer_ablation.running.reproduction import reproduce, reproduction_text

    folder = report.parent if report.name == REPORT else report
    if not (folder / REPORT).is_file():
        raise RunError(f"{report} has no {REPORT}: give the folder of a finished study, or its {REPORT}")
    record = reproduce(
        folder,
        out or Path("reproductions", folder.resolve().name),
        installed(ctx, registry),
        _executor("local", workers),
        _console(),
        arms=arms or (),
        seeds=seeds or (),
    )
    typer.echo(json.dumps(record, ensure_ascii=False) if as_json else reproduction_text(record))
    if any(cell["failure"] for cell in record["cells"]):
        raise typer.Exit(1)
    if not all(verdict["stands"] for verdict in record["verdicts"]):
        raise typer.Exit(REFUTED)
