"""`plugformer validate`: everything that can be said about a task before its examples are read."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from plugformer.commands.parameters import AsJson, LocalManifest, Settings, TaskName, installed
from plugformer.commands.printing import print_text
from plugformer.errors import ConfigurationError, PlugformerError

if TYPE_CHECKING:
    from plugformer.configuration import Task
    from plugformer.experiment import Experiment


EXAMPLES = ("plugformer validate dates --set model.attention=gqa --set model.heads=8",)


def command(
    ctx: typer.Context,
    task: TaskName,
    settings: Settings = None,
    as_json: AsJson = False,
    registry: LocalManifest = None,
) -> None:
    """Check a task before its examples are read.

    Checks names, structure, options, whether the parts fit together, and whether files of data are there and
    begin as the task says. Prints OK and what the task is, or every mistake with its place (exit status 2).
    """
    from plugformer.configuration import resolve

    try:
        resolved = resolve(task, settings or [], installed(ctx, registry))
        for notice in resolved.notices:
            typer.echo(notice, err=True)
        from plugformer.validation import validate  # imports torch, for which a mistake need not wait

        experiment = validate(resolved)
    except PlugformerError as error:
        if not as_json:
            raise
        typer.echo(json.dumps({"valid": False, "problems": _problems(error)}, ensure_ascii=False))
        raise typer.Exit(2) from None
    if as_json:
        typer.echo(json.dumps({"valid": True, "problems": []}))
    else:
        print_text(f"OK  {_summary(experiment)}")
        for hint in _hints(experiment.task):
            typer.echo(hint, err=True)


def _hints(task: "Task") -> Iterator[str]:
    """Yields the settings that no default serves for all data, where the task leaves them out."""
    from plugformer.configuration.task import DEFAULT_EPOCHS

    if task.training.epochs is None and task.training.steps is None:
        yield (
            f"training.epochs: {DEFAULT_EPOCHS}, because nothing is given; small data need more passes, "
            "large data fewer: aim at some thousand updates, which `train` counts"
        )


def _problems(error: PlugformerError) -> list[str]:
    """Returns the problems of an error: in a task's each begins at the margin, its hints are indented."""
    if not isinstance(error, ConfigurationError):
        return [str(error).replace("\n", "\n  ")]
    blocks: list[str] = []
    for line in str(error).splitlines():
        if blocks and line.startswith(" "):
            blocks[-1] += f"\n{line}"
        else:
            blocks.append(line)
    return blocks


def _summary(experiment: "Experiment") -> str:
    task, model, stacks = experiment.task, experiment.task.model, experiment.architecture.stacks
    depth = "+".join(str(getattr(model, stack.name).layers or model.layers) for stack in stacks)
    parts = [model.position, model.attention, model.feed_forward, model.norm, model.head]
    return (
        f"{task.type.name} on {task.data.name}: {model.architecture.name}, width {model.width}, "
        f"{depth} layers of {model.heads} heads, {', '.join(part.name for part in parts)}"
    )
