"""`plugformer new`: write a working plugin or task to start from."""

import shlex
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from plugformer.errors import ConfigurationError, nearest
from plugformer.registry import EntryKind, Kind
from plugformer_cli import LocalManifest, examples, installed
from plugformer_scaffolding import Files, plugin_files, write

EXAMPLES = (
    "plugformer new plugin plugformer-mine --kind attention",
    "plugformer new task reviews --type classification",
    "plugformer new task pairs --type '{name: classification, inputs: [a, b]}'",
)

KINDS: tuple[Kind | EntryKind, ...] = (*Kind, EntryKind.COMMAND)

Out: TypeAlias = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="The folder to create; by default NAME.")
]


def plugin(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the distribution, for pip.")],
    kind: Annotated[str | None, typer.Option(metavar="KIND", help=f"One of: {', '.join(KINDS)}.")] = None,
    out: Out = None,
    registry: LocalManifest = None,
) -> None:
    """Write a plugin with one component, or one command.

    The plugin is a distribution that installs, works, and passes its tests. No file is overwritten.
    """
    chosen = next((known for known in KINDS if known == kind), None)
    if chosen is None:
        problem = "no --kind given" if kind is None else f"unknown --kind {kind!r}{nearest(kind, KINDS)}"
        raise ConfigurationError(f"{problem}\n  known: {', '.join(KINDS)}")
    folder, known = out or Path(name), installed(ctx, registry)
    names, texts = plugin_files(name, chosen, [entry.name for entry in known.entries(chosen)])
    write(folder, texts)
    path = str(folder) if folder.is_absolute() else f"./{folder}"  # without ./ pip would look for a name
    check = [f"plugformer check {chosen}/{names['new_component']}"] * (chosen is not EntryKind.COMMAND)
    install = f"pip install -e {shlex.quote(f'{path}[test]')}"
    tests = f"pytest {shlex.quote(str(folder))}"
    _print_next(folder, texts, install, *check, names["NEW_COMMAND"], tests)


def task(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the task.")],
    task_type: Annotated[
        str | None,
        typer.Option(
            "--type",
            metavar="TYPE",
            help="A name that `list task_type` shows, or with options: {name: TYPE, OPTION: VALUE}.",
        ),
    ] = None,
    out: Out = None,
    registry: LocalManifest = None,
) -> None:
    """Write a task with some examples.

    The task trains without changes; comments in its file say what to change. No file is overwritten.
    """
    known = installed(ctx, registry)
    if task_type is None:
        raise ConfigurationError(f"no --type given\n  known: {known.known(Kind.TASK_TYPE)}")
    from plugformer.configuration import Component, Origin, read_setting
    from plugformer_scaffolding.task import task_files  # imports what the type of task needs

    value = read_setting(f"type={task_type}", Origin.of_argument("--type", task_type))[1].value
    keys = value if isinstance(value, dict) else {"name": value}
    if not all(isinstance(key, str) for key in (keys.get("name"), *keys)):
        shown = shlex.quote(task_type)
        raise ConfigurationError(f"--type {shown}: expected a name, or {{name: NAME, OPTION: VALUE}}")
    folder = out or Path(name)
    texts = task_files(name, Component.model_validate(value), folder, known)
    write(folder, texts)
    file = shlex.quote(str(folder / "task.yaml"))
    commands = [f"plugformer {word} {file}{known.arguments}" for word in ("validate", "info", "train")]
    _print_next(folder, texts, *commands)


def _print_next(folder: Path, texts: Files, *commands: str) -> None:
    """Prints the files written and the commands to run next."""
    typer.echo(f"Wrote {folder}: {', '.join(path for path, text in texts.items() if text)}")
    typer.echo("\n  ".join(["Next:", *commands]))


app = typer.Typer(
    help="Write a plugin or a task to start from.",
    epilog=examples(EXAMPLES),
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("plugin", epilog=examples(EXAMPLES[:1]))(plugin)
app.command("task", epilog=examples(EXAMPLES[1:]))(task)
