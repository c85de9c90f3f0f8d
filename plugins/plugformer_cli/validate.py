"""`plugformer validate`: checks a task without reading its examples."""

import re
from typing import TYPE_CHECKING

import typer

from plugformer.errors import ConfigurationError, PlugformerError
from plugformer_cli.options import AsJson, LocalManifest, Settings, TaskName, installed
from plugformer_cli.printing import print_json, print_text

if TYPE_CHECKING:
    from plugformer.experiment import Experiment

EXAMPLES = ("plugformer validate dates --set model.attention=gqa --set model.heads=8",)


def command(
    ctx: typer.Context,
    task: TaskName,
    settings: Settings = None,
    as_json: AsJson = False,
    registry: LocalManifest = None,
) -> None:
    """Check a task without reading its examples.

    Checks names, structure, options, whether the parts fit together, and whether the data files exist and
    begin as the task says. Prints OK and a summary, or every mistake with its place (exit status 2).
    """
    from plugformer.configuration import resolve

    try:
        resolved = resolve(task, settings or [], installed(ctx, registry))
        from plugformer.validation import validate  # imports torch, for which a mistake need not wait

        experiment = validate(resolved)
    except PlugformerError as error:
        if not as_json:
            raise
        print_json({"valid": False, "problems": _problems(error)})
        raise typer.Exit(2) from None
    if as_json:
        print_json({"valid": True, "problems": []})
    else:
        print_text(f"OK  {_summary(experiment)}")


def _problems(error: PlugformerError) -> list[str]:
    """Returns the problems of an error: in a task's each begins at the margin, its hints are indented."""
    if isinstance(error, ConfigurationError):
        return re.split(r"\n(?! )", str(error))
    return [str(error).replace("\n", "\n  ")]


def _summary(experiment: "Experiment") -> str:
    task, model, stacks = experiment.task, experiment.task.model, experiment.architecture.stacks
    depth = "+".join(str(getattr(model, stack).layers or model.layers) for stack, _ in stacks)
    parts = [model.position, model.attention, model.feed_forward, model.norm, model.head]
    names = ", ".join(part.name for part in parts)
    size = f"width {model.width}, {depth} layers of {model.heads} heads"
    return f"{task.type.name} on {task.data.name}: {model.architecture.name}, {size}, {names}"
