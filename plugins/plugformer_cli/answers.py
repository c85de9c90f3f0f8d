"""The answers of an evaluation as a table: of pandas, and as a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from plugformer_cli.answer_files import write_table

if TYPE_CHECKING:  # pandas takes half a second
    from pandas import DataFrame

    from plugformer.evaluation import Report
    from plugformer.runs import TrainedModel


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


def write_predictions(table: "DataFrame", file: Path) -> None:
    """Writes a table in the form that the file's name says."""
    rows = table.astype(object).where(table.notna(), None).to_dict("records")
    write_table(file, [*table.columns], rows)
