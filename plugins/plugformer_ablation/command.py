"""`plugformer ablate`: a study of what a model's parts are worth, from the first training to the report."""

import json
import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from plugformer_cli import AsJson, LocalManifest, Settings, installed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugformer_ablation.arms import Arm
    from plugformer_ablation.executor import Executor
    from plugformer_ablation.study import Study

EXAMPLES = (
    "plugformer ablate study.yaml",
    "plugformer ablate dates --swap 'model.attention=[mha, mqa]' --seeds 2 --match parameters",
)


def command(
    ctx: typer.Context,
    study: Annotated[
        str, typer.Argument(metavar="STUDY", help="A study file; with --swap also a task's name or file.")
    ],
    swaps: Annotated[
        list[str] | None,
        typer.Option(
            "--swap",
            metavar="KEY=[VALUE, ...]",
            help="Compare values, the first is the baseline; repeatable.",
        ),
    ] = None,
    settings: Settings = None,
    tune: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=[VALUE, ...]", help="Choose a setting for each arm, on validation."),
    ] = None,
    design: Annotated[
        Literal["one-factor", "grid"] | None, typer.Option(help="One change at a time, or all combinations.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(metavar="N", min=1, help="Trainings of each arm.")] = None,
    match: Annotated[
        Literal["none", "parameters", "flops", "time"] | None, typer.Option(help="What arms have in common.")
    ] = None,
    metric: Annotated[str | None, typer.Option(metavar="NAME", help="The metric that decides.")] = None,
    split: Annotated[str | None, typer.Option(metavar="NAME", help="What it is measured on.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The study's folder; studies/NAME if not given.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Trainings at a time; one for each GPU, or else core, if not given. "
            "With Ray: at most; as many as the cluster has room for if not given.",
        ),
    ] = None,
    executor: Annotated[
        Literal["local", "ray"], typer.Option(help="Processes of this machine, or a Ray cluster.")
    ] = "local",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check every arm and list them; train nothing.")
    ] = False,
    as_json: AsJson = False,
    registry: LocalManifest = None,
) -> None:
    """Compare parts of a model fairly, and say which differences are no luck.

    Trains every arm with every seed, in parallel processes, then prints a verdict for each difference and
    writes report.html. Everything is checked before anything runs. Ctrl-C saves what there is; the same
    command goes on, after a crash as well, and runs no finished training again. The exit status is 1 if a
    training failed.
    """
    known = installed(ctx, registry)
    from plugformer_ablation.study import read_study

    declared = read_study(
        study,
        swaps=swaps or (),
        settings=settings or (),
        tune=tune or (),
        design=design,
        seeds=seeds,
        match=match,
        metric=metric,
        split=split,
    )
    if dry_run:
        from plugformer_ablation.arms import resolve_arms

        planned = _planned(declared, resolve_arms(declared, known))
        typer.echo(json.dumps(planned, ensure_ascii=False) if as_json else _plan_text(planned))
        return
    folder = out or _folder(study, declared)
    from rich.console import Console

    from plugformer_ablation.findings import find
    from plugformer_ablation.report import report_text, write_report
    from plugformer_ablation.running import StudyRunner

    messages = Console(stderr=True, soft_wrap=not sys.stderr.isatty())
    results = StudyRunner(_executor(executor, workers), known, messages).run(declared, folder)
    findings = find(results)
    files = write_report(findings, folder, partial(messages.print, markup=False, highlight=False))
    if as_json:
        report = (folder / "report.json").read_text(encoding="utf-8")
        typer.echo(json.dumps({"study": str(folder), **json.loads(report)}, ensure_ascii=False))
    else:
        typer.echo(report_text(findings, Console().width if sys.stdout.isatty() else None))
        typer.echo(f"\n{files[-1]}")
    if any(cell.failure is not None for cell in results.cells):
        raise typer.Exit(1)


def _planned(study: "Study", arms: "Sequence[Arm]") -> dict[str, Any]:
    """Returns what a study would train, of all arms with all choices of tuned settings."""
    values = {arm.name: arm.values for arm in arms}
    return {
        "study": study.title,
        "arms": [{"name": name, "values": each} for name, each in values.items()],
        "seeds": study.seed_list,
        "trainings": len(values) * len(study.seed_list),
        "tuning_trainings": len(arms) if arms[0].tuned else 0,
    }


def _plan_text(planned: dict[str, Any]) -> str:
    arms, seeds, tuning = len(planned["arms"]), len(planned["seeds"]), planned["tuning_trainings"]
    lines = [f"{planned['study']}: {planned['trainings']} trainings, of {arms} arms with {seeds} seeds each"]
    if tuning:
        lines.append(f"before them {tuning} trainings that choose the settings of each arm")
    return "\n".join([*lines, *(f"  {arm['name']}" for arm in planned["arms"])])


def _folder(study: str, declared: "Study") -> Path:
    """Returns the default folder of a study: always the same, so that the study continues there."""
    from plugformer.configuration import short_name

    name = short_name(study)
    if declared.task == study:  # a task, so that the options alone say what is studied
        name = "-".join([name, *declared.factors])
    return Path("studies", re.sub(r"[^\w.-]+", "-", name))


def _executor(name: str, workers: int | None) -> "Executor":
    if name == "ray":
        from plugformer_ablation.ray_executor import RayExecutor

        return RayExecutor(workers=workers)
    from plugformer_ablation.local_executor import LocalExecutor, available_cores, visible_gpus

    cores, gpus = available_cores(), visible_gpus()
    places = workers or len(gpus) or cores
    return LocalExecutor(places, max(1, cores // places), gpus)
