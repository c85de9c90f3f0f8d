"""`plugformer info`: a component with its options, a task with its model, or a plugin."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plugformer.errors import ConfigurationError, RegistryError
from plugformer.registry import CONTRACTS, Kind, Registry
from plugformer_cli.listing import as_record, print_entries
from plugformer_cli.options import AsJson, LocalManifest, Settings, installed
from plugformer_cli.printing import print_json, print_table, print_text

if TYPE_CHECKING:
    from plugformer.runs import RunDirectory

EXAMPLES = (
    "plugformer info attention/gqa",
    "plugformer info dates --set model.width=256",
    "plugformer info head --contract",
)


def command(
    ctx: typer.Context,
    what: Annotated[
        str,
        typer.Argument(
            metavar="KIND/NAME|KIND|TASK|RUN|PLUGIN",
            help="A component, a kind, a task's name or file, a run's directory or hub:NAME, or a plugin.",
        ),
    ],
    settings: Settings = None,
    data: Annotated[
        bool, typer.Option("--data", help="Read a task's data to find the sizes of its vocabularies.")
    ] = False,
    contract: Annotated[
        bool, typer.Option("--contract", help="What a kind, or a class that components receive, demands.")
    ] = False,
    as_json: AsJson = False,
    registry: LocalManifest = None,
) -> None:
    """Show a component's options, a task's model, a plugin, or the contract of a kind.

    A component: types, ranges, defaults and meaning of its options; of a task type or head also its level,
    columns and answers, and what fits. A task: the modules of its model with the shapes of their outputs,
    parameters and floating-point operations. Without --data the length of the example is assumed, and the
    sizes of vocabularies unless a run has them or the tokenizers' options give them. A plugin, by the name of
    its distribution: its version, components, tasks, commands and hooks.
    """
    if contract:
        from plugformer_cli.contract import print_contract

        print_contract(what.partition("/")[0], as_json=as_json)
        return
    known = installed(ctx, registry)
    run = None
    if what.startswith("hub:") or (Path(what) / "task.yaml").is_file():
        from plugformer.runs import RunDirectory, located

        run = RunDirectory(located(what))
        what = str(run.path / "task.yaml")
    what = what.removeprefix("task/")
    kind, slash, name = what.partition("/")
    is_component = slash and not what.endswith(".yaml") and not Path(what).exists()
    is_task = any(entry.name == what for entry in known.entries("task"))
    plugin = [] if is_component or is_task else known.offered_by(what)
    if (is_component or plugin) and (settings or data):
        raise ConfigurationError(f"--set and --data are for a task; {what} is not a task")
    if is_component:
        _show_component(known, kind, name, as_json=as_json)
    elif plugin:
        print_entries(plugin, as_json=as_json)
    else:
        learned = None if settings else run  # which may be about its tokenizers
        _show_task(what, settings or [], known, learned, read_data=data, as_json=as_json)


def _show_component(registry: Registry, kind: str, name: str, *, as_json: bool) -> None:
    entry = registry.find(kind, name)
    component: Any = registry.load(kind, name)
    options, fits = describe_options(component), describe_fit(component, kind, registry)
    if as_json:
        versions = {"contract": entry.contract, "supported": CONTRACTS[kind].supported}
        record = {**as_record(entry), "class": entry.target, **versions, **fits, "options": options}
        print_json(record, indent=2)
        return
    typer.secho(f"{entry.kind}/{entry.name}", bold=True)
    print_text(entry.summary)
    typer.echo()
    print_text(f"source        {entry.source}\ndistribution  {entry.owner}\nclass         {entry.target}")
    print_text(f"contract      version {entry.contract}; supported: {CONTRACTS[kind].supported}")
    for what, values in fits.items():
        print_text(f"{what.replace('_', ' '):<14}{', '.join(values) or 'none'}")
    typer.echo("\noptions:" if options else "\nno options")
    for option in options:
        default = "required" if option["required"] else f"default {json.dumps(option['default'])}"
        typer.echo(f"  {typer.style(option['name'], bold=True)}: {option['type']}; {default}")
        print_text(option["description"], indent=6)


def _show_task(
    name: str,
    settings: list[str],
    registry: Registry,
    run: "RunDirectory | None",
    *,
    read_data: bool,
    as_json: bool,
) -> None:
    _suggest_component(name, registry)
    from plugformer.configuration import resolve

    resolved = resolve(name, settings, registry)
    from plugformer.validation import validate
    from plugformer_cli.model_summary import preview_model  # imports torch, for which a mistake need not wait

    rows, example = preview_model(validate(resolved, data=False), run, read_data=read_data)
    description = resolved.task.description
    if as_json:
        modules = [asdict(row) for row in rows]
        record = {"task": name, "description": description, "example": example, "modules": modules}
        print_json(record, indent=2)
        return
    typer.secho(name, bold=True)
    print_text(description or "")
    print_text(f"\nshapes and operations for {example}\n\n")
    print_model(rows)


def _suggest_component(name: str, registry: Registry) -> None:
    """Refuses a kind, or the name of a component without its kind."""
    if name in list(Kind):
        shows = f"`plugformer list {name}` shows its components, `plugformer info {name} --contract` what"
        raise RegistryError(f"{name!r} is a kind\n{shows} they must do")
    kinds = [entry.kind for entry in registry.entries() if entry.name == name]
    if kinds and all(task.name != name for task in registry.entries("task")):
        choices = " or ".join(f"`plugformer info {kind}/{name}`" for kind in kinds)
        raise RegistryError(f"{name!r} is a component, not a task\nwrite {choices}")


def describe_fit(component: Any, kind: str, registry: Registry) -> dict[str, list[str]]:
    """Returns the columns, level and answers of a task type or head, and which installed components fit.

    Of other kinds it returns nothing, and of a task type whose options have no defaults only what its class
    declares.
    """
    if kind not in (Kind.TASK_TYPE, Kind.HEAD):
        return {}
    from plugformer.validation import fitting, measures, reads, serves

    def names(kind: Kind, fits: Callable[[Any], bool]) -> list[str]:
        return sorted(fitting(registry, kind, fits))

    if kind == Kind.HEAD:
        found = {"levels": sorted(component.levels), "answers": sorted(component.output_types)}
        return {**found, "task_types": names(Kind.TASK_TYPE, lambda other: serves(component, other))}
    found = {"levels": [component.level], "answers": [component.output_type]}
    if not any(option["required"] for option in describe_options(component)):
        component = component()
        columns = [(column, [column.holds, column.role]) for column in component.columns]
        for column, words in columns:
            words += [f"along {column.along}"] * (column.along is not None) + ["optional"] * column.optional
        found["columns"] = [f"{column.name} ({' '.join(words)})" for column, words in columns]
        found["architectures"] = names(Kind.ARCHITECTURE, lambda other: reads(component, other))
    found["heads"] = names(Kind.HEAD, lambda other: serves(other, component))
    return {**found, "metrics": names(Kind.METRIC, lambda other: measures(other, component))}


def describe_options(component: type) -> list[dict[str, Any]]:
    """Returns name, type, default and meaning of a component's options, in the order of its constructor.

    Raises:
        RegistryError: The annotations of the constructor cannot be used to check options.
    """
    from plugformer.configuration import options_model  # imports pydantic, which `list` does without

    schema = options_model(component).model_json_schema()
    return [
        {
            "name": name,
            "type": in_words(field, schema.get("$defs", {})),
            "required": name in schema.get("required", ()),
            "default": field.get("default"),
            "description": field.get("description", ""),
        }
        for name, field in schema["properties"].items()
    ]


def in_words(schema: Mapping[str, Any], definitions: Mapping[str, Any] | None = None) -> str:
    """Returns a description of the values that a JSON Schema allows; it may refer to others by name."""
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
    if kind == "array" and "prefixItems" in schema:
        members = [in_words(item, definitions) for item in schema["prefixItems"]]
        alike = len(set(members)) == 1
        return f"list of {len(members)}: {members[0] if alike else '; '.join(members)}"
    if kind == "array":
        return f"list of {in_words(schema['items'], definitions)}" if "items" in schema else "list"
    unlimited = {"maximum"} if schema.get("maximum", 0) >= 2**31 - 1 else set()
    bounds = [f"{sign} {schema[key]}" for key, sign in _BOUNDS.items() if key in schema.keys() - unlimited]
    return " ".join([_WORDS.get(kind, kind), ", ".join(bounds)]).rstrip()


_WORDS = {"string": "text", "object": "mapping", "null": "null", "boolean": "true | false"}
_BOUNDS = {
    "minimum": ">=",
    "exclusiveMinimum": ">",
    "maximum": "<=",
    "exclusiveMaximum": "<",
    "pattern": "matching",
}


def print_model(rows: Sequence[Any]) -> None:
    """Prints the modules, each indented below the one it belongs to, and the totals of the whole model."""
    paths = [row.path for row in rows]
    cells = []
    for row in rows:
        shape, flops = " × ".join(map(str, row.shape)), rounded(row.flops) if row.flops else ""
        if row.path:
            cells.append((branch(row.path, paths), row.module, shape, f"{row.parameters:,}", flops))
    header = ("module", "class", "output", "parameters", "FLOPs")
    print_table(header, cells, right=("parameters", "FLOPs"))
    for whole in (row for row in rows if not row.path):
        typer.echo(f"\n{whole.module}: {whole.parameters:,} parameters, {rounded(whole.flops)} FLOPs forward")


def branch(path: str, paths: Sequence[str]) -> str:
    """Returns a module's path without those of the modules around it, indented by their number."""
    around = [outer for outer in paths if outer and path.startswith(f"{outer}.")]
    return "  " * len(around) + path.removeprefix(f"{max(around, key=len, default='')}.")


def rounded(number: float) -> str:
    """Returns a large number with three digits and its SI prefix: `1.23 M`."""
    for prefix in ("", " k", " M", " G", " T"):
        if number < 999.5:
            return f"{number:.3g}{prefix}"
        number /= 1000
    return f"{number:.0f} P"
