"""`plugformer info`: one component with its options, or one task with its model."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from plugformer.commands.last_check import last_check
from plugformer.commands.listing import as_record, print_entries
from plugformer.commands.model_table import print_model
from plugformer.commands.parameters import AsJson, LocalManifest, Settings, installed
from plugformer.commands.table import print_text
from plugformer.errors import ConfigurationError, RegistryError
from plugformer.kinds import Kind
from plugformer.registry import Registry

EXAMPLES = (
    "plugformer info attention/gqa",
    "plugformer info dates --set model.width=256",
)


def command(
    ctx: typer.Context,
    what: Annotated[
        str,
        typer.Argument(
            metavar="KIND/NAME|TASK|PLUGIN", help="A component, a task's name or file, or a plugin."
        ),
    ],
    settings: Settings = None,
    as_json: AsJson = False,
    registry: LocalManifest = None,
) -> None:
    """Show a component's options, a task's model, or a plugin.

    Of a component: types, ranges, defaults and meaning of its options. Of a task: its modules with the shapes
    that they put out, their parameters and their floating-point operations. Of a plugin, by the name of its
    distribution: its version, its components, tasks, commands and hooks.
    """
    known = installed(ctx, registry)
    kind, slash, name = what.partition("/")
    if not slash or what.endswith(".yaml") or Path(what).exists():
        _show_task_or_plugin(what, settings or [], known, as_json=as_json)
    elif settings:
        raise ConfigurationError(f"--set changes a task's settings; {what} is a component")
    else:
        _show_component(known, kind, name, as_json=as_json)


def _show_component(registry: Registry, kind: str, name: str, *, as_json: bool) -> None:
    from plugformer.commands.options import describe_options

    entry = registry.find(kind, name)
    options = describe_options(registry.load(kind, name))
    if as_json:
        record = {
            **as_record(entry),
            "class": entry.target,
            "options": [asdict(option) for option in options],
        }
        typer.echo(json.dumps(record, ensure_ascii=False, indent=2))
        return
    typer.secho(f"{entry.kind}/{entry.name}", bold=True)
    print_text(entry.summary)
    typer.echo(f"\nsource        {entry.source}\ndistribution  {entry.owner}\nclass         {entry.target}")
    never = f"never; run `plugformer check {entry.kind}/{entry.name}`"
    typer.echo(f"last check    {last_check(entry) or never}\n")
    typer.echo("options:" if options else "no options of its own")
    for option in options:
        default = "required" if option.required else f"default {json.dumps(option.default)}"
        typer.echo(f"  {typer.style(option.name, bold=True)}: {option.type}; {default}")
        if option.description:
            print_text(option.description, indent=6)


def _show_task_or_plugin(name: str, settings: list[str], registry: Registry, *, as_json: bool) -> None:
    entries = [] if any(task.name == name for task in registry.tasks()) else registry.offered_by(name)
    if not entries:
        _show_task(name, settings, registry, as_json=as_json)
    elif settings:
        raise ConfigurationError(f"--set changes a task's settings; {name} is a plugin")
    else:
        print_entries(entries, as_json=as_json)


def _show_task(name: str, settings: list[str], registry: Registry, *, as_json: bool) -> None:
    if "/" not in name and not name.endswith(".yaml"):
        _refuse_component(name, registry)
    from plugformer.configuration import resolve
    from plugformer.validation import validate_model

    resolved = resolve(name, settings, registry)
    for notice in resolved.notices:
        typer.echo(notice, err=True)
    resolved = validate_model(resolved)
    from plugformer.training.preview import preview  # imports torch, for which a mistake need not wait

    model = preview(resolved)
    if as_json:
        record = {
            "task": name,
            "description": resolved.task.description,
            "example": model.example,
            "modules": [asdict(row) for row in model.rows],
        }
        typer.echo(json.dumps(record, ensure_ascii=False, indent=2))
        return
    typer.secho(name, bold=True)
    if resolved.task.description:
        print_text(resolved.task.description)
    typer.echo()
    print_text(f"shapes and operations for {model.example}")
    typer.echo()
    print_model(model.rows)


def _refuse_component(name: str, registry: Registry) -> None:
    """Tells somebody who gives a bare kind or component's name how to ask for it."""
    if any(task.name == name for task in registry.tasks()):
        return
    if name in list(Kind):
        raise RegistryError(f"{name!r} is a kind\n`plugformer list {name}` shows its components")
    if kinds := [entry.kind for entry in registry.entries() if entry.name == name]:
        choices = " or ".join(f"`plugformer info {kind}/{name}`" for kind in kinds)
        raise RegistryError(f"{name!r} is a component, not a task\nwrite {choices}")
