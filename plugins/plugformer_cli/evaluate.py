"""`plugformer evaluate`: the metrics of a trained model on one split."""

import sys
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from plugformer.errors import ConfigurationError
from plugformer_cli.answer_files import check_form
from plugformer_cli.answers import predictions as predictions_of
from plugformer_cli.answers import write_predictions
from plugformer_cli.options import AsJson, Device, LocalManifest, RunPath, RunSettings, load_run
from plugformer_cli.printing import print_report
from plugformer_cli.questions import TABLES

EXAMPLES = (
    "plugformer evaluate runs/dates-20260102-120000 --split validation",
    "plugformer evaluate runs/dates-20260102-120000 --set decoding.name=beam",
    "plugformer evaluate runs/dates-20260102-120000 --predictions answers.csv",
)


def command(
    ctx: typer.Context,
    run: RunPath,
    split: Annotated[
        str | None, typer.Option(metavar="NAME", help="A split of the task's data; test by default.")
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Other examples in the task's format; twice for parallel files, source first.",
        ),
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write answers and scores of each example: .csv, .tsv, .jsonl or .parquet.",
        ),
    ] = None,
    settings: RunSettings = None,
    device: Device = None,
    as_json: AsJson = False,
    registry: LocalManifest = None,
) -> None:
    """Measure a trained model on its data or on other examples.

    Reads the task's data again, or the files of --data, and prints every metric with its 95 % confidence
    interval. --set changes settings of data, decoding and evaluation. Nothing is written into the run.
    --predictions writes a row for each example: inputs, references, answer, probability, loss and metrics.
    """
    if split and data:
        raise ConfigurationError("--split and --data exclude each other: give one")
    if predictions is not None:
        check_form("--predictions", predictions, TABLES)
    model = load_run(ctx, run, settings, device, registry)
    with redirect_stdout(sys.stderr):  # components may print; only results go to standard output
        notify = partial(typer.echo, err=True)
        report = model.evaluate(split or "test", data=data or None, notify=notify)
        if predictions is not None:
            write_predictions(predictions_of(model, report), predictions)
            notify(f"predictions: {predictions}")
    print_report(report, as_json=as_json)
