"""`plugformer new`: write a working plugin or task to start from, out of the folder `templates`."""

import keyword
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from packaging.utils import InvalidName, canonicalize_name

from plugformer.errors import ConfigurationError, nearest
from plugformer.registry import EntryKind, Kind
from plugformer_cli.options import LocalManifest, examples, installed

EXAMPLES = (
    "plugformer new plugin plugformer-mine --kind attention",
    "plugformer new task reviews --type classification",
)

KINDS: tuple[Kind | EntryKind, ...] = (*Kind, EntryKind.COMMAND)

_TEMPLATES = files("plugformer_cli") / "templates"
_PLACEHOLDER = re.compile(r"NEW_[A-Z]+|new[-_](?:plugin|component|kind|task)\b|NewComponent")

TYPES = sorted(
    file.name.removesuffix(".yaml")
    for file in (_TEMPLATES / "tasks").iterdir()
    if file.name.endswith(".yaml")
)
"""Task types that have a template."""

_SETTINGS: Mapping[Kind | EntryKind, str] = {
    Kind.TASK_TYPE: "type=new_component",
    Kind.TOKENIZER: "tokenizer=new_component",
    Kind.DATA: "data=new_component",
    Kind.METRIC: "evaluation.metrics=[exact_match,new_component]",
    Kind.SCHEDULE: "training.schedule=new_component",
    Kind.OPTIMIZER: "training.optimizer=new_component",
    Kind.DECODING: "decoding=new_component",
    Kind.CONSTRAINT: "decoding.constraint=new_component",
    Kind.CALLBACK: "training.callbacks=[new_component]",
}
"""How a task selects a component of each kind; other kinds are parts of the model."""

Out: TypeAlias = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="The folder to create; by default NAME.")
]


def plugin(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the distribution, for pip.")],
    kind: Annotated[str, typer.Option(metavar="KIND", help=f"One of: {', '.join(KINDS)}.")] = "",
    out: Out = None,
    registry: LocalManifest = None,
) -> None:
    """Write a plugin with one component, or one command.

    The plugin is a distribution that installs, works, and passes its tests. No file is overwritten.
    """
    chosen = KINDS[KINDS.index(_known("--kind", kind, KINDS))]
    folder, names = out or Path(name), plugin_names(name, chosen)
    package, entry = names["new_plugin"], names["new_component"]
    taken = any(other.name == entry for other in installed(ctx, registry).entries(chosen))
    if taken or find_spec(package) is not None:
        raise ConfigurationError(
            f"{chosen}/{entry} or a package {package!r} is installed already; choose another name"
        )
    texts = plugin_files(chosen, names)
    write(folder, texts)
    path = str(folder) if folder.is_absolute() else f"./{folder}"  # without ./ pip would look for a name
    check = [f"plugformer check {chosen}/{entry}"] * (chosen is not EntryKind.COMMAND)
    install = f"pip install -e {shlex.quote(f'{path}[test]')}"
    _print_next(folder, texts, install, *check, names["NEW_COMMAND"], f"pytest {shlex.quote(str(folder))}")


def task(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the task.")],
    task_type: Annotated[
        str, typer.Option("--type", metavar="TYPE", help=f"One of: {', '.join(TYPES)}.")
    ] = "",
    out: Out = None,
) -> None:
    """Write a task with some examples.

    The task trains without changes; comments in its file say what to change. No file is overwritten.
    """
    text = _template(f"tasks/{_known('--type', task_type, TYPES)}.yaml")
    data = text.partition("{train: ")[2].partition("}")[0]
    folder = out or Path(name)
    file = shlex.quote(str(folder / "task.yaml"))
    names = {"new-task": name, "NEW_FILE": file, "NEW_DATA": data}
    texts = {
        "task.yaml": _filled(text, names),
        data: _template(f"tasks/{data}"),
        "README.md": _filled(_template("tasks/README.md"), names),
    }
    write(folder, texts)
    _print_next(folder, texts, *(f"plugformer {word} {file}" for word in ("validate", "info", "train")))


def plugin_names(name: str, kind: Kind | EntryKind) -> dict[str, str]:
    """Returns the values of the placeholders for a new plugin.

    Args:
        name: Name of the distribution. Its package has the same name with underscores; its component or
            command also lacks `plugformer-`.
        kind: Kind of its component, or `EntryKind.COMMAND`.

    Raises:
        ConfigurationError: The name is not a valid name of a distribution and of a package.
    """
    distribution = ""
    with suppress(InvalidName):
        distribution = str(canonicalize_name(name, validate=True))
    package, entry = (
        text.replace("-", "_") for text in (distribution, distribution.removeprefix("plugformer-"))
    )
    if not all(word.isidentifier() and not keyword.iskeyword(word) for word in (package, entry)):
        raise ConfigurationError(
            f"{name!r} cannot be the name of a distribution and a package; expected one like plugformer-mine"
        )
    setting = _SETTINGS.get(kind, f"model.{kind}=new_component").replace("new_component", entry)
    command = (
        f"plugformer train {'names' if kind is Kind.ARCHITECTURE else 'dates'} --set {shlex.quote(setting)}"
    )
    if kind is Kind.COLUMN:  # a task type names it, not a task
        command = "plugformer list column"
    if kind is EntryKind.COMMAND:
        command = f"plugformer {entry} --help"
    component = _template(f"components/{kind}.py")
    return {
        "new-plugin": distribution,
        "new_plugin": package,
        "new_kind": str(kind),
        "new_component": entry,
        "NewComponent": "".join(part.capitalize() for part in entry.split("_")) + "Component",
        "NEW_SUMMARY": component.split('"""')[1],
        "NEW_COMMAND": command,
    }


def plugin_files(kind: Kind | EntryKind, names: Mapping[str, str]) -> dict[str, str]:
    """Returns the text of each file of a new plugin, by its path."""
    folder, test = (
        ("command", "test_command.py") if kind is EntryKind.COMMAND else ("plugin", "test_contract.py")
    )
    package = names["new_plugin"]
    texts = {
        "pyproject.toml": _template("plugin/pyproject.toml"),
        "README.md": _template(f"{folder}/README.md"),
        f"{package}/__init__.py": '"""NEW_SUMMARY"""\n',
        f"{package}/py.typed": "",
        f"{package}/registry.yaml": _template(f"{folder}/registry.yaml"),
        f"{package}/{kind}.py": _template(f"components/{kind}.py"),
        f"tests/{test}": _template(f"{folder}/{test}"),
    }
    return {path: _filled(text, names) for path, text in texts.items()}


def write(folder: Path, texts: Mapping[str, str]) -> None:
    """Writes texts by their path into a new folder; ConfigurationError if it exists or cannot be created."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise ConfigurationError(f"{folder} exists already; choose another folder with --out") from None
    for path, text in texts.items():
        file = folder / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="\n")


def _known(option: str, value: str, known: Sequence[str]) -> str:
    """Returns a value of an option that is one of some; ConfigurationError if it is another."""
    if value not in known:
        problem = f"unknown {option} {value!r}{nearest(value, known)}" if value else f"no {option} given"
        raise ConfigurationError(f"{problem}\n  known: {', '.join(known)}")
    return value


def _template(path: str) -> str:
    return _TEMPLATES.joinpath(path).read_text(encoding="utf-8")


def _filled(text: str, names: Mapping[str, str]) -> str:
    """Returns a template's text with the value of each placeholder."""
    return _PLACEHOLDER.sub(lambda match: names[match[0]], text)


def _print_next(folder: Path, texts: Mapping[str, str], *commands: str) -> None:
    """Prints the files written and the commands to run next."""
    typer.echo(f"Wrote {folder}: {', '.join(path for path, text in texts.items() if text)}")
    typer.echo("\n  ".join(["Next:", *commands]))


app = typer.Typer(
    help="Write a plugin or a task to start from.",
    epilog=examples(EXAMPLES),
    no_args_is_help=True,
    rich_markup_mode=None,
)
"""Write a plugin or a task to start from."""
app.command("plugin", epilog=examples(EXAMPLES[:1]))(plugin)
app.command("task", epilog=examples(EXAMPLES[1:]))(task)
