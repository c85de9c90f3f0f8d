"""`plugformer export`: a trained model in the format of another engine."""

import sys
from contextlib import redirect_stdout
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plugformer.errors import ConfigurationError, nearest
from plugformer_cli import AsJson, LocalManifest, RunPath, RunSettings, load_run, print_json

if TYPE_CHECKING:
    from plugformer_export.target import Target

EXAMPLES = (
    "plugformer export runs/dates-20260102-120000 --to ctranslate2 --out exported",
    "plugformer export runs/dates --to ctranslate2 --compute-type int8 --out exported-int8",
)

TARGETS = {
    "ctranslate2": "plugformer_export.ctranslate2:CTranslate2",
    "onnx": "plugformer_export.onnx:ONNX",
    "transformers": "plugformer_export.transformers:Transformers",
}
"""The class of each format; its module is imported when it is used."""


def create_target(name: str, compute_type: str = "float32") -> "Target":
    """Returns a format by its name; raises ConfigurationError if there is none."""
    if name not in TARGETS:
        known = ", ".join(TARGETS)
        raise ConfigurationError(f"unknown format {name!r}{nearest(name, TARGETS)}; known: {known}")
    module, _, attribute = TARGETS[name].partition(":")
    target: Target = getattr(import_module(module), attribute)(compute_type=compute_type)
    return target


def command(
    ctx: typer.Context,
    run: RunPath,
    to: Annotated[str, typer.Option(metavar="FORMAT", help=f"One of {', '.join(TARGETS)}.")],
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
    settings: RunSettings = None,
    as_json: AsJson = False,
    registry: LocalManifest = None,
) -> None:
    """Write a trained model for another engine.

    The engine loads what was written, and answers held-out examples, in padded batches and one by one. If its
    scores, outputs or metrics are not those of the run, the command says where, and nothing is written. Parts
    without a counterpart in the format are refused by name. The model card has the figures.
    """
    target = create_target(to, compute_type)
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
