"""`plugformer track`: sends a run that is there already to trackers."""

from pathlib import Path
from typing import Annotated

import typer

from plugformer.errors import ConfigurationError, nearest
from plugformer_cli import AsJson, RunPath, print_json

EXAMPLES = (
    "plugformer track runs/dates-20260102-120000 --to tensorboard",
    "plugformer track runs/dates-20260102-120000 --to mlflow --to wandb --out elsewhere",
)


def command(
    run: RunPath,
    to: Annotated[
        list[str],
        typer.Option("--to", metavar="TRACKER", help="tensorboard, wandb or mlflow; repeatable."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the trackers' files; `tracking`, next to the run."),
    ] = None,
    project: Annotated[
        str, typer.Option(metavar="NAME", help="The project or experiment that has the trackers' runs.")
    ] = "plugformer",
    as_json: AsJson = False,
) -> None:
    """Send a run that is there already to experiment trackers.

    Sends the settings, every line of metrics.jsonl and the final metrics. A tracker that has followed the
    training continues its run with what it lacks; with --out it begins one there.
    """
    from plugformer.configuration import read_file
    from plugformer.runs import RunDirectory, located
    from plugformer_plugins.callback.track import TrackedRun
    from plugformer_plugins.callback.trackers import TRACKERS, require

    if unknown := set(to) - set(TRACKERS):
        name = min(unknown)
        known = ", ".join(TRACKERS)
        raise ConfigurationError(f"--to: unknown tracker {name!r}{nearest(name, TRACKERS)}; known: {known}")
    names = [name for name in TRACKERS if name in to]
    for each in names:
        require(each)
    directory = RunDirectory.open(located(run))
    folder = out or directory.path.absolute().parent / "tracking"
    memory = folder / f"{directory.path.absolute().name}.json" if out else directory.path / "tracking.json"
    settings = read_file(directory.task, str(directory.task)).value
    tracked = TrackedRun(directory, settings, names, project, folder, memory)
    tracked.send()
    tracked.send_evaluations()
    tracked.finish()
    if as_json:
        print_json({"run": str(run), "trackers": names, "directory": str(folder)})
    else:
        typer.echo(str(folder))
