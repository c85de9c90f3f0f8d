"""`plugformer plot`: figures of learning curves, positional encodings and attention weights."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from plugformer.errors import ConfigurationError, needing
from plugformer_cli import AsJson, Device, LocalManifest, RunPath, load_run, print_json

EXAMPLES = (
    "plugformer plot runs/dates-20260102-120000",
    'plugformer plot runs/dates-20260102-120000 "March 5, 1996" --out pictures',
    "plugformer plot runs/dates-20260102-120000 --worst loss",
)


_IMAGES = (".png", ".svg", ".pdf", ".jpg")


def command(
    ctx: typer.Context,
    run: RunPath,
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="The input; the first validation example if not given."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the files; RUN/plots if not given.")
    ] = None,
    layers: Annotated[
        list[int] | None,
        typer.Option(
            "--layer",
            metavar="N",
            min=0,
            help="Layer whose attention is drawn, from 0; repeatable. Default: up to four of each stack.",
        ),
    ] = None,
    worst: Annotated[
        str | None,
        typer.Option(metavar="METRIC", help="List the validation examples with the worst metric, or loss."),
    ] = None,
    device: Device = None,
    as_json: AsJson = False,
    registry: LocalManifest = None,
) -> None:
    """Draw learning curves, positions and attention maps.

    Writes each figure as PNG and SVG, and index.html, a page with all figures that needs no network.
    Attention is drawn for one text, layer by layer and head by head. Prints the names of the files. --worst
    also evaluates the validation split, and lists the examples that the model answers worst.
    """
    if out is not None and out.suffix.lower() in _IMAGES:
        advice = f"give a folder, such as {out.with_suffix('')}"
        raise ConfigurationError(
            f"--out {out} names an image, but there are several, as PNG and SVG; {advice}"
        )
    with needing("figures", "`plugformer plot`"):
        from plugformer_inspection.plot import plot

    trained = load_run(ctx, run, None, device, registry)
    notify = partial(typer.echo, err=True)
    files = plot(trained, out or run / "plots", text, notify, layers or (), worst)
    if as_json:
        print_json({"run": str(run), "files": [*map(str, files)]})
    else:
        typer.echo("\n".join(map(str, files)))
