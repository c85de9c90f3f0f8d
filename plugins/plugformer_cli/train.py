"""`plugformer train`: from a task to a trained, evaluated and saved model."""

import os
import sys
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from plugformer.errors import ConfigurationError
from plugformer_cli.options import AsJson, Device, LocalManifest, Settings, installed
from plugformer_cli.printing import print_baselines, print_next_steps, print_report, print_self_check

EXAMPLES = (
    "plugformer train dates",
    "plugformer train dates --set model.attention=gqa --out runs/gqa",
    "plugformer train --resume --out runs/gqa",
    "plugformer train --resume --out runs/gqa --set training.steps=2000",
)


def command(
    ctx: typer.Context,
    task: Annotated[
        str | None,
        typer.Argument(metavar="TASK", help="A task's name or file; with --resume a run."),
    ] = None,
    settings: Settings = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The run's directory; runs/TASK-DATE-TIME by default."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume the run in --out from its last checkpoint.")
    ] = False,
    allow_changes: Annotated[
        bool,
        typer.Option("--allow-changes", help="With --resume: resume even if components have changed."),
    ] = False,
    device: Device = None,
    as_json: AsJson = False,
    registry: LocalManifest = None,
) -> None:
    """Train a task's model, evaluate it, and save the run.

    Ctrl-C saves a checkpoint and stops; a second Ctrl-C stops at once. Messages, progress and samples go to
    standard error, metrics to standard output.
    """
    known = installed(ctx, registry)
    if allow_changes and not resume:
        raise ConfigurationError("--allow-changes is an option of --resume: give both")
    run = None
    if resume:
        if (task is None) == (out is None):
            hint = f"write `plugformer train --resume --out {out or 'DIR'}`"
            raise ConfigurationError(f"--resume needs a run, which has a task of its own\n  {hint}")
        run = out or Path(str(task))
    elif task is None:
        names = ", ".join(entry.name for entry in known.entries("task"))
        raise ConfigurationError(f"no TASK given\n  known: {names}; or a file such as tasks/mine.yaml")
    if run is None:
        from plugformer.configuration import resolve

        resolve(str(task), settings or [], known)  # a mistake in a name need not wait for the imports below
    # Without this, PyTorch warns in every process of a model without experts.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    from rich.console import Console

    import plugformer
    from plugformer.distributed import Processes
    from plugformer_cli.progress import ProgressDisplay

    # Without a terminal rich would break lines at 80 columns, and a log would be hard to search.
    console = Console(stderr=True, soft_wrap=not sys.stderr.isatty())
    shared: dict[str, Any] = {
        "overrides": settings or [],
        "registry": known,
        "device": device,
        "callbacks": [ProgressDisplay(console)],
        "notify": partial(console.print, markup=False, highlight=False),
    }
    with redirect_stdout(sys.stderr):  # components may print; only results go to standard output
        if run is not None:
            trained = plugformer.resume(run, allow_changes=allow_changes, **shared)
        else:
            trained = plugformer.train(str(task), out=out, **shared)
    if not Processes.join().main:
        return
    print_report(trained.report, as_json=as_json)
    if not as_json:
        print_baselines(trained.report)
        print_self_check(trained.report)
        print_next_steps(trained)
