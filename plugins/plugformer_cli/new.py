"""`plugformer new`: write a working plugin or task to start from, out of the folder `templates`."""

import keyword
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
import yaml
from jinja2 import Environment, PackageLoader, PrefixLoader, StrictUndefined
from packaging.utils import InvalidName, canonicalize_name

import plugformer
from plugformer.errors import ConfigurationError, nearest
from plugformer.registry import EntryKind, Kind
from plugformer_cli.options import LocalManifest, examples, installed

EXAMPLES = (
    "plugformer new plugin plugformer-attention-mine",
    "plugformer new task reviews --type classification",
)

KINDS: tuple[Kind | EntryKind, ...] = (*Kind, EntryKind.COMMAND)

_TEMPLATES = files("plugformer_cli") / "templates"
_PLUGIN = "plugins/plugformer_cli/templates/plugin/"  # in the repository, as copier sees it
_SUFFIX = ".jinja"

_REPOSITORY = "gh:plugformer/plugformer"
"""Where `copier update` finds later versions of the template."""

_JINJA = Environment(  # noqa: S701 (writes Python, not HTML)
    loader=PrefixLoader({"plugins/plugformer_cli": PackageLoader("plugformer_cli")}, "/templates/"),
    keep_trailing_newline=True,
    undefined=StrictUndefined,
)
_JINJA.filters["to_nice_yaml"] = yaml.safe_dump

TYPES = sorted(
    file.name.removesuffix(".yaml")
    for file in (_TEMPLATES / "tasks").iterdir()
    if file.name.endswith(".yaml")
)
"""Task types that have a template."""

Out: TypeAlias = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="The folder to create; by default NAME.")
]


def plugin(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the distribution, for pip.")],
    kind: Annotated[
        str, typer.Option(metavar="KIND", help=f"One of: {', '.join(KINDS)}. Needed if the name lacks it.")
    ] = "",
    out: Out = None,
    registry: LocalManifest = None,
) -> None:
    """Write a plugin with one component, or one command.

    The plugin is a distribution that installs, works, and passes its tests; a workflow for GitHub checks and
    publishes it. A name like plugformer-attention-mine says the kind. No file is overwritten.
    """
    named = (each for each in KINDS if canonicalize_name(name).startswith(f"plugformer-{_dashed(each)}-"))
    chosen = KINDS[KINDS.index(_known("--kind", kind or next(named, ""), KINDS))]
    folder, answers = out or Path(name), plugin_answers(name, chosen)
    package, entry = answers["package"], answers["component"]
    taken = any(other.name == entry for other in installed(ctx, registry).entries(chosen))
    if taken or find_spec(package) is not None:
        raise ConfigurationError(
            f"{chosen}/{entry} or a package {package!r} is installed already; choose another name"
        )
    texts = plugin_files(answers)
    write(folder, texts)
    path = str(folder) if folder.is_absolute() else f"./{folder}"  # without ./ pip would look for a name
    check = [f"plugformer check {chosen}/{entry}"] * (chosen is not EntryKind.COMMAND)
    install = f"pip install -e {shlex.quote(f'{path}[test]')}"
    _print_next(folder, texts, install, *check, answers["command"], f"pytest {shlex.quote(str(folder))}")


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
    names = {"name": name, "file": file, "data": data}
    texts = {
        "task.yaml": _filled(text, names),
        data: _template(f"tasks/{data}"),
        "README.md": _filled(_template("tasks/README.md"), names),
    }
    write(folder, texts)
    _print_next(folder, texts, *(f"plugformer {word} {file}" for word in ("validate", "info", "train")))


def plugin_answers(name: str, kind: Kind | EntryKind) -> dict[str, str]:
    """Returns the answers that the files of a new plugin are made of, see `templates/questions.yml`.

    Args:
        name: Name of the distribution. Its package has the same name with underscores; its component or
            command also lacks `plugformer-` and the kind.
        kind: Kind of its component, or `EntryKind.COMMAND`.

    Raises:
        ConfigurationError: The name is not a valid name of a distribution and of a package.
    """
    answers = {"name": "", "kind": str(kind)}
    with suppress(InvalidName):
        answers["name"] = str(canonicalize_name(name, validate=True))
    for key, question in yaml.safe_load(_template("questions.yml")).items():
        if key not in answers:
            answers[key] = _filled(question["default"], answers)
    words = answers["package"], answers["component"]
    if not all(word.isidentifier() and not keyword.iskeyword(word) for word in words):
        raise ConfigurationError(
            f"{name!r} cannot be the name of a distribution and a package; "
            f"expected one like plugformer-{_dashed(kind)}-mine"
        )
    return answers


def plugin_files(answers: Mapping[str, str]) -> dict[str, str]:
    """Returns the text of each file of a new plugin, by its path, as `copier copy` would write it."""
    origin = {"_commit": f"v{plugformer.__version__}", "_src_path": _REPOSITORY}
    values = {
        **answers,
        "_copier_answers": {**origin, "kind": answers["kind"], "name": answers["name"]},
        "_copier_conf": {"answers_file": ".copier-answers.yml"},
    }
    paths = [path for path in _JINJA.list_templates() if path.startswith(_PLUGIN) and path.endswith(_SUFFIX)]
    texts = {path: _JINJA.get_template(path).render(values) for path in paths}
    return {
        _filled(path.removeprefix(_PLUGIN).removesuffix(_SUFFIX), values): text
        for path, text in texts.items()
    }


def write(folder: Path, texts: Mapping[str, str]) -> None:
    """Writes texts by their path into a new folder; ConfigurationError if it exists or cannot be created."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise ConfigurationError(f"{folder} exists already; choose another folder with --out") from None
    for path, text in texts.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="\n")


def _known(option: str, value: str, known: Sequence[str]) -> str:
    """Returns a value of an option that is one of some; ConfigurationError if it is another."""
    if value not in known:
        problem = f"unknown {option} {value!r}{nearest(value, known)}" if value else f"no {option} given"
        raise ConfigurationError(f"{problem}\n  known: {', '.join(known)}")
    return value


def _template(path: str) -> str:
    return _TEMPLATES.joinpath(path).read_text(encoding="utf-8")


def _filled(text: str, values: Mapping[str, object]) -> str:
    """Returns a template's text with values."""
    return _JINJA.from_string(text).render(values)


def _dashed(kind: str) -> str:
    return kind.replace("_", "-")


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
