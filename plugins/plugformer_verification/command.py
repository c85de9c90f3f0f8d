"""`plugformer verify-resume`: trainings of a task, one uninterrupted and one killed and resumed, compared."""

import json
import multiprocessing
import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from plugformer.errors import ConfigurationError, RunError
from plugformer_cli import AsJson, LocalManifest, Settings, TaskName, installed

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
    """Verify that resuming this task's training is exact.

    Trains it shortly and uninterrupted, then again, killed at random updates and resumed. The loss and the
    learning rate of every update must be the same bits, and so must the last checkpoint: parameters, the
    optimizer's state and the random generators. Prints the first difference; the exit status is then 1.
    Nothing is kept.
    """
    known = installed(ctx, registry)
    from plugformer.configuration import resolve
    from plugformer.validation import validate
    from plugformer_verification.training import EXIT_WHEN_KILLED, first_difference, train_until

    every = max(1, steps // 4)  # four evaluations, each with a checkpoint
    short = {"training.evaluate_every": every, "evaluation.limit": 8}
    given = {setting.partition("=")[0] for setting in settings or []}
    overrides = [*(settings or []), f"training.steps={steps}", "training.log_every=1"]
    overrides += [f"{key}={value}" for key, value in short.items() if key not in given]
    every = validate(resolve(task, overrides, known)).task.training.evaluate_every or steps
    resumable = range(min(every, steps - 1) + 1, steps + 1)  # updates after a checkpoint
    if kills > len(resumable):
        raise ConfigurationError(
            f"--kills {kills}: only {len(resumable)} of {steps} updates come after a checkpoint; "
            "give more --steps"
        )
    killed = sorted(random.SystemRandom().sample(resumable, kills))
    forking = "forkserver" in multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("forkserver" if forking else "spawn")
    with TemporaryDirectory(prefix="plugformer-") as folder:

        def trained(name: str, *kill_after: int | None) -> Path:
            run = Path(folder, name)
            for update in kill_after:
                arguments = (task, overrides, known.local, run, update)
                process = context.Process(target=train_until, args=arguments)
                process.start()
                process.join()
                if process.exitcode != (EXIT_WHEN_KILLED if update else 0):
                    raise RunError("the training failed by itself")
            return run

        whole = trained("uninterrupted", None)
        typer.echo(f"training again, killed after updates {', '.join(map(str, killed))}", err=True)
        difference = first_difference(whole, trained("resumed", *killed, None))
        repeatable = None if difference is None else first_difference(whole, trained("again", None)) is None
    found = {"steps": steps, "killed": killed, "difference": difference, "repeatable": repeatable}
    if as_json:
        typer.echo(json.dumps({**found, "exact": difference is None}))
    elif difference is None:
        typer.echo("exact: losses and the last checkpoint are the same bits as without interruption")
    else:
        typer.echo(f"NOT EXACT: {difference} differs\n  {_ADVICE[bool(repeatable)]}")
    raise typer.Exit(0 if difference is None else 1)


_ADVICE = {
    True: "keep state in buffers (register_buffer) or in the optimizer's state",
    False: "two uninterrupted trainings differ, too: something in them does not depend on the seed alone",
}
