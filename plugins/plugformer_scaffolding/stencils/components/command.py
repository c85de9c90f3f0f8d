"""How many parameters each part of a trained model has."""

import json
from collections import Counter
from typing import Annotated

import typer

import plugformer
from plugformer_cli import AsJson, LocalManifest, RunPath, installed

EXAMPLES = ("plugformer new_component runs/dates-20260102-120000 --depth 2",)


def command(
    ctx: typer.Context,
    run: RunPath,
    depth: Annotated[
        int, typer.Option(metavar="N", min=1, help="Parts whose names have so many words are counted apart.")
    ] = 1,
    as_json: AsJson = False,
    registry: LocalManifest = None,
) -> None:
    """Count the parameters of a trained model, part by part."""
    trained = plugformer.load(run, installed(ctx, registry))  # imports torch, which --help does without
    counts: Counter[str] = Counter()
    for name, parameter in trained.model.named_parameters():
        counts[".".join(name.split(".")[:depth])] += parameter.numel()
    if as_json:
        typer.echo(json.dumps(counts))
        return
    for name, count in counts.items():
        typer.echo(f"{count:>12,}  {name}")
