"""`plugformer export`: a trained model in the format of another engine."""

import sys
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plugformer.errors import ConfigurationError
from plugformer.registry import Kind, Registry
from plugformer_cli import AsJson, LocalManifest, RunPath, RunSettings, installed, load_run, print_json

if TYPE_CHECKING:
    from plugformer_export.kept import ExportEngine

EXAMPLES = (
    "plugformer export runs/dates-20260102-120000 --to ctranslate2 --out exported",
    "plugformer export runs/dates --to ctranslate2 --compute-type int8 --out exported-int8",
)


def create_target(registry: Registry, name: str, **options: Any) -> "ExportEngine":
    """Returns an engine by its name; raises ConfigurationError if it reads no exports, or lacks an option."""
    registry.find(Kind.ENGINE, name)  # nothing is imported for a wrong name
    from plugformer_export.kept import ExportEngine

    kind: Any = registry.load(Kind.ENGINE, name)
    if not issubclass(kind, ExportEngine):
        raise ConfigurationError(f"--to {name}: this engine reads no files that a run can be exported to")
    target: ExportEngine = registry.create(Kind.ENGINE, name, **options)
    return target


def command(
    ctx: typer.Context,
    run: RunPath,
    to: Annotated[str, typer.Option(metavar="ENGINE", help="Such as ctranslate2 or onnxruntime.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the export; it must not exist.")],
    compute_type: Annotated[
        str,
        typer.Option(metavar="TYPE", help="The numbers that the engine computes with, such as int8."),
    ] = "float32",
    agreement: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            min=0,
            max=1,
            help="With another compute type than float32: least share of examples with equal outputs.",
        ),
    ] = 0.0,
    examples: Annotated[
        int, typer.Option(metavar="N", min=1, help="Held-out examples to compare, of mixed length.")
    ] = 64,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Examples to compare, in the task's format; twice for parallel files, source first.",
        ),
    ] = None,
    code: Annotated[
        bool,
        typer.Option(
            "--code", help="With --to transformers: code of its own, for parts that no class there has."
        ),
    ] = False,
    settings: RunSettings = None,
    as_json: AsJson = False,
    registry: LocalManifest = None,
) -> None:
    """Write a trained model for another engine, one of `plugformer list engine`.

    The engine loads what was written, and answers held-out examples, in padded batches and one by one. If its
    scores, outputs or metrics are not those of the run, the command says where, and nothing is written. Parts
    without a counterpart in the format are refused by name. The model card has the figures.
    """
    options = {"compute_type": compute_type, **({"code": True} if code else {})}
    target = create_target(installed(ctx, registry), to, **options)
    from plugformer_export.verification import verified

    trained = load_run(ctx, run, settings, "cpu", registry)
    with redirect_stdout(sys.stderr):  # components may print; only results go to standard output
        notify = partial(typer.echo, err=True)
        found = verified(
            trained, target, out, examples=examples, agreement=agreement, data=data or None, notify=notify
        )
    if as_json:
        print_json({"run": str(run), "out": str(out), **found.as_json()})
    else:
        typer.echo("\n".join(f"{name}: {figure}" for name, figure in found.figures.items()))
        typer.echo(f"\nwritten to {out}")
