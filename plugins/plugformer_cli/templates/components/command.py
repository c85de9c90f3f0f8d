"""Count the parameters of a trained model."""

import json
from collections import Counter

import typer

import plugformer
from plugformer_cli import AsJson, LocalManifest, RunPath, installed

EXAMPLES = ("plugformer new_component runs/dates-20260102-120000",)


def command(
    ctx: typer.Context, run: RunPath, as_json: AsJson = False, registry: LocalManifest = None
) -> None:
    """Count the parameters of each part of a trained model."""
    counts: Counter[str] = Counter()
    for name, parameter in plugformer.load(run, installed(ctx, registry)).model.named_parameters():
        counts[name.partition(".")[0]] += parameter.numel()
    lines = [json.dumps(counts)] if as_json else [f"{count:>12,}  {name}" for name, count in counts.items()]
    typer.echo("\n".join(lines))
