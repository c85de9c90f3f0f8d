"""`plugformer verify-resume`: whether a task's training, killed and resumed, ends with the same bits."""

import json
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from plugformer.commands import AsJson, LocalManifest, Settings, TaskName, installed

if TYPE_CHECKING:
    from plugformer_verification.resuming import Verification

EXAMPLES = (
    "plugformer verify-resume dates --set data.size=200 --set model.attention=gqa --steps 8 --kills 1",
)


def command(
    ctx: typer.Context,
    task: TaskName,
    settings: Settings = None,
    steps: Annotated[int, typer.Option(metavar="N", min=2, help="Updates of the training.")] = 20,
    kills: Annotated[
        int, typer.Option(metavar="K", min=1, help="How often it is killed, after random updates.")
    ] = 3,
    as_json: AsJson = False,
    registry: LocalManifest = None,
) -> None:
    """Prove that resuming this task's training is exact.

    Trains it shortly and uninterrupted, then again, killed at random updates (SIGKILL) and resumed. After
    each update the batches, the learning rate, the loss, every parameter, the optimizer's state and the
    random generators must be the same bits. Prints the first difference and what probably causes it; the exit
    status is then 1. Nothing is kept.
    """
    known = installed(ctx, registry)
    from plugformer_verification.resuming import verify_resuming

    found = verify_resuming(
        task,
        overrides=settings or [],
        steps=steps,
        kills=kills,
        registry=known,
        notify=partial(typer.echo, err=True),
    )
    if as_json:
        typer.echo(json.dumps(found.as_json(), ensure_ascii=False, indent=2))
    else:
        _print(found)
    if found.difference is not None:
        raise typer.Exit(1)


def _print(found: "Verification") -> None:
    killed = f"killed after updates {', '.join(map(str, found.killed))} of {found.steps}"
    difference = found.difference
    if difference is None:
        typer.echo(f"exact: {killed} and resumed, every update has the same bits as uninterrupted")
        return
    others = f" and {difference.others} more" if difference.others else ""
    typer.echo(f"NOT EXACT: {killed} and resumed, the training differs from the uninterrupted one")
    typer.echo(f"  first in update {difference.step}, resumed after update {difference.resumed_after}")
    typer.echo(f"  {difference.part}: {difference.name}{others}")
    typer.echo(f"    uninterrupted {difference.expected}")
    typer.echo(f"    resumed       {difference.found}")
    if difference.output:
        typer.echo(f"  first module with another output: {difference.output}")
    for name, expected, value in difference.attributes:
        typer.echo(f"  kept in Python, not in checkpoints: {name} is {value} instead of {expected}")
    typer.echo(f"  {_advice(found)}")


def _advice(found: "Verification") -> str:
    if not found.repeatable:
        return (
            "Two uninterrupted trainings differ, too: something in it is not a function of the seed, "
            "such as a kernel without a fixed order of sums"
        )
    return (
        "Two uninterrupted trainings are equal: keep in buffers (register_buffer), or in the optimizer's "
        "state, whatever must survive"
    )
