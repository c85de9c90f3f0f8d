"""`plugformer ablate`: a study that compares parts of a model, from the first training to the report."""

import json
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from plugformer.errors import ConfigurationError, InterruptedRunError
from plugformer_cli import AsJson, LocalManifest, Settings, installed

if TYPE_CHECKING:
    from rich.console import Console

    from plugformer.registry import Registry
    from plugformer_ablation.design.study import Study
    from plugformer_ablation.judging.results import StudyResults
    from plugformer_ablation.running.executors import Executor

AGAIN = 75
"""Exit status of a worker that was asked to stop: EX_TEMPFAIL of sysexits.h, start it again."""

EXAMPLES = (
    "plugformer ablate study.yaml",
    "plugformer ablate dates --swap 'model.attention=[mha, mqa]' --seeds 2 --match parameters",
)

_OF_FINISHED = {"study", "out", "as_json", "registry", "costs"}
"""What can be given with the folder of a finished study."""

UNDECIDED = 3
"""Exit status where a comparison has no verdict: neither better nor worse nor equivalent."""


def command(
    ctx: typer.Context,
    study: Annotated[
        str,
        typer.Argument(
            metavar="STUDY",
            help="A study file; with --swap also a task's name or file; or the folder of a finished study, "
            "whose report is written again.",
        ),
    ],
    swaps: Annotated[
        list[str] | None,
        typer.Option(
            "--swap",
            metavar="KEY=[VALUE, ...]",
            help="Values to compare, the first is the baseline; repeatable.",
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A protocol, for example wortsman, wen, narang, isoflop or mad."),
    ] = None,
    settings: Settings = None,
    tune: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=[VALUE, ...]", help="Setting to choose for each arm on validation."),
    ] = None,
    design: Annotated[
        Literal["one-factor", "grid"] | None,
        typer.Option(help="One change of the baseline at a time, or all combinations."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Number of trainings of each arm.")
    ] = None,
    match: Annotated[
        Literal["none", "parameters", "flops", "tokens", "operations", "time"] | None,
        typer.Option(
            help="Quantity made equal over the arms; without one, sentences say how many parameters differ."
        ),
    ] = None,
    metric: Annotated[str | None, typer.Option(metavar="NAME", help="Primary metric.")] = None,
    split: Annotated[str | None, typer.Option(metavar="NAME", help="Split of the final comparison.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The study's folder; studies/TITLE if not given.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of trainings at a time; default: one for each GPU, or else core. With Ray: upper "
            "limit.",
        ),
    ] = None,
    pack: Annotated[
        int,
        typer.Option(metavar="K", min=1, help="Number of trainings on each GPU at a time, if there are any."),
    ] = 1,
    executor: Annotated[
        Literal["local", "ray"], typer.Option(help="Processes of this machine, or a Ray cluster.")
    ] = "local",
    costs: Annotated[
        bool, typer.Option("--costs/--no-costs", help="Compare in the end what an update of each arm costs.")
    ] = True,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Prepare the data, check every arm, and list them with their parameters and about how much "
            "time and disk the study takes; a few updates of the baseline are timed and thrown away.",
        ),
    ] = False,
    accept_code: Annotated[
        bool,
        typer.Option(
            "--accept-code",
            help="Count finished cells that differ from what is asked in the code of Plugformer alone; the "
            "report names them.",
        ),
    ] = False,
    worker: Annotated[
        bool,
        typer.Option(
            "--worker",
            help="Train cells that no other process trains, in a folder that any number of workers share; "
            "write no report. Asked to stop, it saves and ends with status 75: start it again.",
        ),
    ] = False,
    status: Annotated[
        bool, typer.Option("--status", help="Say how far the study is; never waits, and trains nothing.")
    ] = False,
    noise: Annotated[
        bool,
        typer.Option(
            "--noise",
            help="Train the baseline twice with each of a few seeds, and say which differences how many "
            "seeds find; from then on --dry-run says it, too.",
        ),
    ] = False,
    as_json: AsJson = False,
    registry: LocalManifest = None,
) -> None:
    """Compare parts of a model on the same data and seeds, and report which differences are more than chance.

    Trains every arm with every seed, in parallel processes, then prints a sentence for each comparison and
    writes report.html. Everything is checked before anything runs. Ctrl-C saves checkpoints; the same command
    resumes the study, also after a crash, and runs no finished training again. The exit status is 1 if a
    training failed, otherwise 3 if any comparison is undecided.
    """
    if status and (out or Path(study, "cells").is_dir()):
        _show_status(out or Path(study), as_json=as_json)
        return
    known = installed(ctx, registry)
    if Path(study, "report.json").is_file():
        sources = {name: ctx.get_parameter_source(name) for name in ctx.params.keys() - _OF_FINISHED}
        if any(source and source.name != "DEFAULT" for source in sources.values()):
            raise ConfigurationError(
                f"{study} is the folder of a finished study, whose report is written again: only --out, "
                "--json and --registry can be given with it; to train more, give the study's file"
            )
        from plugformer_ablation.judging.results import StudyResults

        results = StudyResults.load(Path(study), known)
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
        _show(results, out or Path(study), as_json=as_json)
        return
    from plugformer_ablation.design.reading import read_study

    keys = {"preset": preset, "design": design, "seeds": seeds, "match": match}
    keys |= {"metric": metric, "split": split}
    declared = read_study(study, swaps=swaps or (), settings=settings or (), tune=tune or (), **keys)
    folder = out or declared.default_folder
    if status:
        _show_status(folder, as_json=as_json)
    elif worker:
        if workers or executor != "local":
            raise ConfigurationError(
                "a worker is one process, which trains one cell at a time: start as many as you want, "
                "without --workers and --executor"
            )
        _work(declared, folder, known, accept_code=accept_code)
    else:
        chosen = _executor(executor, workers, pack)
        chosen.accept_code = accept_code
        if dry_run or noise:
            _foresee(declared, folder, known, chosen, noise=noise and not dry_run, as_json=as_json)
            return
        from plugformer_ablation.running.running import run_study

        results = run_study(declared, folder, known, chosen, _console(), costs=costs)
        _show(results, folder, as_json=as_json)


def _foresee(
    study: "Study", folder: Path, registry: "Registry", executor: "Executor", *, noise: bool, as_json: bool
) -> None:
    """Prints what a study would train, or what it can find, after its noise has been measured."""
    console = _console()
    if noise:
        from plugformer_ablation.running.noise import measure_noise, noise_text

        measured = measure_noise(study, folder, registry, executor, console)
        _print({"noise": measured}, noise_text(measured), as_json=as_json)
        return
    from plugformer_ablation.running.plan import plan, plan_text

    planned = plan(study, folder, registry, executor, partial(console.print, markup=False, highlight=False))
    _print(planned, plan_text(planned), as_json=as_json)


def _print(record: Any, text: str, *, as_json: bool) -> None:
    typer.echo(json.dumps(record, ensure_ascii=False) if as_json else text)


def _show(results: "StudyResults", folder: Path, *, as_json: bool) -> None:
    """Judges results, writes the report to a folder and prints it; exits with 0 if all is decided."""
    from rich.console import Console

    from plugformer_ablation.judging.findings import find
    from plugformer_ablation.reporting.report import StudyReport

    report = StudyReport(find(results))
    files = report.write(folder, partial(_console().print, markup=False, highlight=False))
    if as_json:
        typer.echo(json.dumps({"folder": str(folder), **report.findings.record}, ensure_ascii=False))
    else:
        typer.echo(report.text(Console().width if sys.stdout.isatty() else None))
        typer.echo(f"\n{files[-1]}")
    if results.failed:
        raise typer.Exit(1)
    if report.findings.undecided:
        raise typer.Exit(UNDECIDED)


def _show_status(folder: Path, *, as_json: bool) -> None:
    from plugformer_ablation.running.status import status_text, study_status

    found = study_status(folder)
    _print(found, status_text(found), as_json=as_json)


def _work(study: "Study", folder: Path, registry: "Registry", *, accept_code: bool) -> None:
    """Trains cells of a study as one of its workers; exits with 75 if it is asked to stop."""
    from rich.console import Console

    from plugformer_ablation.running.executors import SharingExecutor
    from plugformer_ablation.running.running import run_study

    if hasattr(signal, "SIGUSR1"):
        signal.signal(signal.SIGUSR1, signal.default_int_handler)  # where nothing is trained, as Ctrl-C
    chosen = SharingExecutor()
    chosen.accept_code = accept_code
    try:
        # Without a live display, which would go on in the log of a cell.
        run_study(study, folder, registry, chosen, Console(stderr=True, soft_wrap=True, force_terminal=False))
    except (InterruptedRunError, KeyboardInterrupt) as error:
        typer.echo(str(error) or "Interrupted.", err=True)
        raise typer.Exit(AGAIN) from None


def _console() -> "Console":
    from rich.console import Console

    return Console(stderr=True, soft_wrap=not sys.stderr.isatty())


def _executor(name: str, workers: int | None, pack: int = 1) -> "Executor":
    from plugformer_ablation.running.executors import LocalExecutor
    from plugformer_ablation.running.ray_executor import RayExecutor

    return RayExecutor(workers, pack) if name == "ray" else LocalExecutor(workers, pack)
