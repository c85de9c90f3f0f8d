"""The answers of an evaluation as a table: of pandas, or as a file."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plugformer.errors import ConfigurationError

if TYPE_CHECKING:  # pandas takes half a second
    from pandas import DataFrame

    from plugformer.evaluation import Report
    from plugformer.runs import TrainedModel

ENDINGS = (".csv", ".jsonl", ".parquet")


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
    """Writes a table as CSV, JSON lines or Parquet, as the file's name ends; CSV has lists as JSON."""
    refuse_ending(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".parquet":
        table.to_parquet(file, index=False)
    elif file.suffix == ".jsonl":
        table.to_json(file, orient="records", lines=True, force_ascii=False)
    else:
        table.map(_cell).to_csv(file, index=False)


def refuse_ending(file: Path) -> None:
    """Raises ConfigurationError unless the name says in which form to write."""
    if file.suffix not in ENDINGS:
        raise ConfigurationError(f"{file}: unknown ending {file.suffix!r}; expected {' or '.join(ENDINGS)}")


def _cell(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
