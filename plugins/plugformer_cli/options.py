"""Arguments and options that several commands share, and the registry and the run that they select."""

import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from plugformer.registry import Registry

if TYPE_CHECKING:
    import torch

    from plugformer.runs import TrainedModel

TaskName: TypeAlias = Annotated[
    str, typer.Argument(metavar="TASK", help="A task's name, or a file: with a slash or ending in .yaml.")
]
"""An argument: a task."""

RunPath: TypeAlias = Annotated[
    Path, typer.Argument(metavar="RUN", help="The directory of a run, or hub:NAME.")
]
"""An argument: a run."""

RunSettings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, e.g. decoding.name=beam; repeatable."),
]
"""The option `--set` of commands that take a run."""

Settings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change a setting, e.g. model.attention=gqa; repeatable."
    ),
]
"""The option `--set` of commands that take a task."""

Device: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="DEVICE", help="The device to compute on: cpu, cuda, cuda:1 or mps. A GPU by default."
    ),
]
"""The option `--device`."""

EngineName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="What computes answers: one of `plugformer list engine`, torch by default; auto: the fastest. "
        "Options: '{name: ctranslate2, compute_type: int8}'.",
    ),
]
"""The option `--engine` of commands that answer."""

AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print only JSON to standard output, messages to standard error.")
]
"""The option `--json`."""

LocalManifest: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        "--registry",
        metavar="FILE",
        help="A local manifest, in addition to the installed plugins; repeatable.",
        is_eager=True,  # known when a --help after it lists the commands of plugins
    ),
]
"""The option `--registry`, for `installed`."""


def examples(lines: Iterable[str]) -> str:
    """Returns the text below a command's help."""
    # The line with \b alone tells the formatter to leave the lines after it as they are.
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def installed(ctx: typer.Context, local: Iterable[Path] | None = None) -> Registry:
    """Returns the registry with the local manifests that the user names, before the command and after it.

    Raises:
        RegistryError: A local manifest cannot be read.
    """
    root = ctx.find_root()
    files = tuple(map(Path, [*(root.params.get("registry") or ()), *(local or ())]))
    registries = root.meta.setdefault("plugformer.registries", {})
    if files not in registries:
        registries[files] = Registry.discover(*files)
    registry: Registry = registries[files]
    return registry


def load_run(
    ctx: typer.Context,
    run: Path,
    settings: Iterable[str] | None = None,
    device: "str | torch.device | None" = None,
    registry: Iterable[Path] | None = None,
    engine: str | None = None,
) -> "TrainedModel":
    """Loads the run that the user names, as its options say; what components print goes to standard error.

    Raises:
        PlugformerError: The run, a setting or a local manifest is wrong, or there is no such device.
    """
    import plugformer
    from plugformer.configuration import Origin, read_setting

    if engine is not None:
        engine = read_setting(f"engine={engine}", Origin.of_argument("--engine", engine))[1].value or ""
    with redirect_stdout(sys.stderr):
        trained = plugformer.load(
            run,
            installed(ctx, registry),
            overrides=[*(settings or ())],
            device=device,
            engine=engine,
            notify=partial(typer.echo, err=True),
        )
    if trained.device.type != "cpu":
        typer.echo(f"computing on {trained.device}", err=True)
    return trained
