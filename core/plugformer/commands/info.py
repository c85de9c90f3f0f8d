"""`plugformer info`: one component with its options, or one task with its model."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plugformer.commands.listing import as_record, print_entries
from plugformer.commands.parameters import AsJson, LocalManifest, Settings, installed
from plugformer.commands.printing import print_table, print_text
from plugformer.errors import ConfigurationError, RegistryError
from plugformer.kinds import Kind
from plugformer.registry import Registry
from plugformer.terminal import printable

if TYPE_CHECKING:
    from plugformer.model.summary import Row


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
    data: Annotated[
        bool, typer.Option("--data", help="Read a task's data: for the sizes of its vocabularies.")
    ] = False,
    as_json: AsJson = False,
    registry: LocalManifest = None,
) -> None:
    """Show a component's options, a task's model, or a plugin.

    Of a component: types, ranges, defaults and meaning of its options. Of a task: its modules with the shapes
    that they put out, their parameters and their floating-point operations; without --data with assumed sizes
    of the vocabularies, unless an option of the tokenizers gives them, and an assumed length. Of a plugin, by
    the name of its distribution: its version, its components, tasks, commands and hooks.
    """
    known = installed(ctx, registry)
    kind, slash, name = what.partition("/")
    if not slash or what.endswith(".yaml") or Path(what).exists():
        _show_task_or_plugin(what, settings or [], known, read_data=data, as_json=as_json)
    elif settings or data:
        raise ConfigurationError(f"--set and --data are about a task; {what} is a component")
    else:
        _show_component(known, kind, name, as_json=as_json)


def _show_component(registry: Registry, kind: str, name: str, *, as_json: bool) -> None:
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
    origin = f"source        {entry.source}\ndistribution  {entry.owner}\nclass         {entry.target}"
    typer.echo(f"\n{printable(origin)}\n")
    typer.echo("options:" if options else "no options of its own")
    for option in options:
        default = "required" if option.required else f"default {json.dumps(option.default)}"
        typer.echo(f"  {typer.style(option.name, bold=True)}: {option.type}; {default}")
        if option.description:
            print_text(option.description, indent=6)


def _show_task_or_plugin(
    name: str, settings: list[str], registry: Registry, *, read_data: bool, as_json: bool
) -> None:
    entries = [] if any(task.name == name for task in registry.tasks()) else registry.offered_by(name)
    if not entries:
        _show_task(name, settings, registry, read_data=read_data, as_json=as_json)
    elif settings or read_data:
        raise ConfigurationError(f"--set and --data are about a task; {name} is a plugin")
    else:
        print_entries(entries, as_json=as_json)


def _show_task(name: str, settings: list[str], registry: Registry, *, read_data: bool, as_json: bool) -> None:
    if "/" not in name and not name.endswith(".yaml"):
        _refuse_component(name, registry)
    from plugformer.configuration import resolve

    resolved = resolve(name, settings, registry)
    for notice in resolved.notices:
        typer.echo(notice, err=True)
    from plugformer.training.preview import preview  # imports torch, for which a mistake need not wait
    from plugformer.validation import validate_model

    rows, example = preview(validate_model(resolved), read_data=read_data)
    if as_json:
        record = {
            "task": name,
            "description": resolved.task.description,
            "example": example,
            "modules": [asdict(row) for row in rows],
        }
        typer.echo(json.dumps(record, ensure_ascii=False, indent=2))
        return
    typer.secho(name, bold=True)
    if resolved.task.description:
        print_text(resolved.task.description)
    typer.echo()
    print_text(f"shapes and operations for {example}")
    typer.echo()
    print_model(rows)


def _refuse_component(name: str, registry: Registry) -> None:
    """Tells somebody who gives a bare kind or component's name how to ask for it."""
    if any(task.name == name for task in registry.tasks()):
        return
    if name in list(Kind):
        raise RegistryError(f"{name!r} is a kind\n`plugformer list {name}` shows its components")
    if kinds := [entry.kind for entry in registry.entries() if entry.name == name]:
        choices = " or ".join(f"`plugformer info {kind}/{name}`" for kind in kinds)
        raise RegistryError(f"{name!r} is a component, not a task\nwrite {choices}")


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    Attributes:
        name: Its key in a task file.
        type: What it may be, such as `integer >= 1`.
        required: Whether it must be given.
        default: Its value otherwise.
        description: What it is for.
    """

    name: str
    type: str
    required: bool
    default: Any
    description: str


def describe_options(component: type) -> list[Option]:
    """Returns a component's options in the order of its constructor.

    Raises:
        RegistryError: They cannot be checked, because of how the constructor is annotated.
    """
    from plugformer.registry import options_model  # imports pydantic, which `list` does without

    schema = options_model(component).model_json_schema()
    definitions = schema.get("$defs", {})
    required = schema.get("required", [])
    return [
        Option(
            name=name,
            type=in_words(field, definitions),
            required=name in required,
            default=field.get("default"),
            description=field.get("description", ""),
        )
        for name, field in schema["properties"].items()
    ]


def in_words(schema: Mapping[str, Any], definitions: Mapping[str, Any] | None = None) -> str:
    """Returns a description of the values that a JSON Schema allows.

    Args:
        schema: Of one value.
        definitions: What its references refer to.
    """
    definitions = definitions or {}
    if "$ref" in schema:
        return in_words(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        return " or ".join(in_words(member, definitions) for member in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(str(choice) for choice in schema["enum"])
    if "const" in schema:
        return str(schema["const"])
    kind = schema.get("type", "any value")
    if kind == "array":
        return _list_in_words(schema, definitions)
    far = {"maximum"} if schema.get("maximum", 0) >= _FAR else set()
    bounds = [f"{sign} {schema[key]}" for key, sign in _BOUNDS.items() if key in schema.keys() - far]
    return " ".join([_WORDS.get(kind, kind), ", ".join(bounds)]).rstrip()


def _list_in_words(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    if "prefixItems" not in schema:
        return f"list of {in_words(schema['items'], definitions)}" if "items" in schema else "list"
    members = [in_words(item, definitions) for item in schema["prefixItems"]]
    alike = len(set(members)) == 1
    return f"list of {len(members)}: {members[0] if alike else '; '.join(members)}"


_WORDS = {"string": "text", "object": "mapping", "null": "null", "boolean": "true | false"}

_FAR = 2**31 - 1
"""An upper bound that only computers care about."""

_BOUNDS = {
    "minimum": ">=",
    "exclusiveMinimum": ">",
    "maximum": "<=",
    "exclusiveMaximum": "<",
    "pattern": "matching",
}


def print_model(rows: Sequence["Row"]) -> None:
    """Prints the modules, each indented below the one it belongs to, and the totals of the whole model."""
    paths = [row.path for row in rows]
    cells = [
        (
            branch(row.path, paths),
            row.module,
            " × ".join(map(str, row.shape)),
            f"{row.parameters:,}",
            rounded(row.flops) if row.flops else "",
        )
        for row in rows
        if row.path
    ]
    header = ("module", "class", "output", "parameters", "FLOPs")
    print_table(header, cells, right=("parameters", "FLOPs"))
    for whole in (row for row in rows if not row.path):
        typer.echo(f"\n{whole.module}: {whole.parameters:,} parameters, {rounded(whole.flops)} FLOPs forward")


def branch(path: str, paths: Sequence[str]) -> str:
    """Returns a module's path without those of the modules around it, indented by their number."""
    around = [other for other in paths if other and path.startswith(f"{other}.")]
    nearest = max(around, key=len, default="")
    return "  " * len(around) + path.removeprefix(f"{nearest}.")


def rounded(number: int) -> str:
    """Returns a large number with three digits and its SI prefix: `1.23 M`."""
    value = float(number)
    for prefix in ("", " k", " M", " G", " T"):
        if value < 999.5:
            return f"{value:.3g}{prefix}"
        value /= 1000
    return f"{value:.0f} P"
