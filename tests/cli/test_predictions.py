"""`evaluate --predictions`: a row for each example, and what `plot --worst` lists of them."""

import json

import pandas as pd
import pytest

from plugformer import load
from plugformer_cli import predictions


@pytest.fixture(scope="module")
def table(trained):
    model = load(trained.report.run)
    report = model.evaluate("validation")
    return report, predictions(model, report)


def test_a_row_says_what_was_asked_answered_and_right(table):
    report, frame = table
    assert list(frame.columns) == ["source", "references", "answer", "probability", "loss", *report.metrics]
    assert len(frame) == report.examples
    assert frame["answer"].tolist() == [answer.output for answer in report.answers]
    assert frame["probability"].between(0, 1).all()
    assert frame["references"].map(len).eq(1).all()
    assert frame["loss"].gt(0).all()


def test_each_metric_is_that_of_the_example_alone(table):
    report, frame = table
    right = [
        float(answer == right[0]) for answer, right in zip(frame["answer"], frame["references"], strict=True)
    ]
    assert frame["exact_match"].tolist() == right
    assert frame["exact_match"].mean() == pytest.approx(report.metrics["exact_match"]["value"])


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "jsonl", "parquet"])
def test_files_hold_the_table(run, table, trained, tmp_path, ending):
    file = tmp_path / "new" / f"answers.{ending}"
    outcome = run("evaluate", str(trained.report.run), "--split", "validation", "--predictions", str(file))
    assert outcome.status == 0, outcome.err
    read = {
        "csv": lambda path: pd.read_csv(path, dtype={"answer": str}),  # an answer may look like a number
        "jsonl": lambda path: pd.read_json(path, lines=True, dtype={"answer": str}),
        "parquet": pd.read_parquet,
    }
    found, expected = read[ending.removesuffix(".gz")](file), table[1]
    assert list(found.columns) == list(expected.columns)
    assert found["answer"].fillna("").tolist() == expected["answer"].tolist()
    first = found["references"][0]
    assert list(json.loads(first) if "csv" in ending else first) == expected["references"][0]
    assert found["loss"].tolist() == pytest.approx(expected["loss"].tolist())


def test_another_ending_is_refused_before_the_evaluation(run, trained):
    outcome = run("evaluate", str(trained.report.run), "--predictions", "answers.xls")
    assert outcome.status == 2
    assert "--predictions answers.xls: unknown ending; expected .csv" in outcome.err


def test_the_worst_are_on_the_page(run, table, trained, tmp_path):
    outcome = run("plot", str(trained.report.run), "--worst", "loss", "--out", str(tmp_path))
    assert outcome.status == 0, outcome.err
    page = (tmp_path / "index.html").read_text()
    frame = table[1].sort_values("loss", ascending=False)
    section = page[page.index("Worst examples") :]
    assert section.index(f"{frame['loss'].iloc[0]:.4g}") < section.index(f"{frame['loss'].iloc[1]:.4g}")
    unknown = run("plot", str(trained.report.run), "--worst", "los", "--out", str(tmp_path))
    assert "unknown metric 'los'; expected loss or " in unknown.err


def test_an_existing_file_is_refused_before_the_evaluation(run, tmp_path):
    (tmp_path / "answers.csv").write_text("text\nmine\n")
    outcome = run("evaluate", "runs/none", "--predictions", "answers.csv")
    assert outcome.status == 2
    assert "--predictions answers.csv exists; delete it, or choose another" in outcome.err
    assert (tmp_path / "answers.csv").read_text() == "text\nmine\n"
