"""`plugformer evaluate`: the metrics of a trained model on one split."""

from typing import Annotated

import typer

from plugformer.commands.parameters import AsJson, LocalManifest, RunPath, RunSettings, installed
from plugformer.commands.scores import print_report

EXAMPLES = (
    "plugformer evaluate runs/dates-20260102-120000 --split validation",
    "plugformer evaluate runs/dates-20260102-120000 --set decoding.name=beam --set decoding.size=5",
)


def command(
    ctx: typer.Context,
    run: RunPath,
    split: Annotated[str, typer.Option(metavar="NAME", help="A split of the task's data.")] = "test",
    settings: RunSettings = None,
    as_json: AsJson = False,
    registry: LocalManifest = None,
) -> None:
    """Measure a trained model on a split of its data.

    Reads the task's data again and prints every metric with its 95 % confidence interval. --set changes
    settings of decoding and evaluation; nothing is written into the run.
    """
    from plugformer.runs.loading import load

    model = load(run, installed(ctx, registry), overrides=settings or [])
    print_report(model.evaluate(split), as_json=as_json)
