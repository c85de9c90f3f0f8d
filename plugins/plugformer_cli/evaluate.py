"""`plugformer evaluate`: the metrics of a trained model on one split, and its answers as a table."""

import sys
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plugformer.errors import ConfigurationError
from plugformer_cli.answer_files import check_form, write_table
from plugformer_cli.options import AsJson, Device, EngineName, LocalManifest, RunPath, RunSettings, load_run
from plugformer_cli.printing import print_report
from plugformer_cli.questions import TABLES

if TYPE_CHECKING:  # pandas takes half a second
    from pandas import DataFrame

    from plugformer.evaluation import Report
    from plugformer.runs import TrainedModel

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
    table: Annotated[
        Path | None,
        typer.Option(
            "--predictions",
            metavar="FILE",
            help="Write answers and scores of each example: .csv, .tsv, .jsonl or .parquet.",
        ),
    ] = None,
    settings: RunSettings = None,
    device: Device = None,
    engine: EngineName = None,
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
    if table is not None:
        check_form("--predictions", table, TABLES)
        if table.exists():
            raise ConfigurationError(f"--predictions {table} exists; delete it, or choose another")
    model = load_run(ctx, run, settings, device, registry, engine)
    with redirect_stdout(sys.stderr):  # components may print; only results go to standard output
        notify = partial(typer.echo, err=True)
        report = model.evaluate(split, data=data or None, notify=notify)
        if table is not None:
            found = predictions(model, report)
            rows = found.astype(object).where(found.notna(), None).to_dict("records")
            write_table(table, [*found.columns], rows)
            notify(f"predictions: {table}")
    print_report(report, as_json=as_json)


def predictions(trained: "TrainedModel", report: "Report") -> "DataFrame":
    """Returns a row for each example that a report is about.

    Columns are the example's inputs, `references` (all right answers), `answer`, `probability` (of the
    answer; none if the head has no probabilities), `loss` (mean over its targets), and each metric of the
    example alone. A column of the data that has one of these names is called `input_NAME`::

        report = trained.evaluate("validation")
        predictions(trained, report).sort_values("loss", ascending=False).head()

    Args:
        trained: The model.
        report: What `trained.evaluate` has returned.
    """
    from pandas import DataFrame

    split, evaluator = report.encoded, trained.evaluator()
    rows = range(report.examples)
    inputs = [column.name for column in trained.processor.task_type.columns if column.role == "input"]
    right = evaluator.likelihoods(split)
    answers = report.answers or evaluator.answers(split, rows)
    probable = trained.model.head.probabilities
    found: dict[str, Any] = {
        "references": [split.references(row) for row in rows],
        "answer": [answer.output for answer in answers],
        "probability": [answer.probability if probable else None for answer in answers],
        "loss": (right.losses / right.targets).tolist(),
    }
    for name, metric in evaluator.metrics.items():
        statistics = report.statistics[name]
        found[name] = [metric.aggregate(statistics[[row]]) for row in rows]
    table: dict[str, Any] = {}
    examples = [split.example(row) for row in rows]
    for name in inputs:
        key = f"input_{name}" if name in found else name
        table[key] = [example.get(name) for example in examples]
    return DataFrame({**table, **found})
