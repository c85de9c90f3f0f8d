"""`plugformer validate` and `schema`."""

import json

from plugformer.errors import DataError

BROKEN = ["--set", "model.atention=gqa", "--set", "training.steps=none"]


def test_all_mistakes_are_printed_with_their_places(run):
    outcome = run("validate", "dates", *BROKEN)
    assert (outcome.status, outcome.out) == (2, "")
    assert "--set model.atention=gqa  model.atention: unknown key 'atention' (did you mean" in outcome.err
    assert "--set training.steps=none  training.steps: " in outcome.err


def test_mistakes_as_json_have_their_hints_with_them(run):
    outcome = run("validate", "dates", *BROKEN, "--json")
    assert (outcome.status, outcome.err) == (2, "")
    record = json.loads(outcome.out)
    assert record["valid"] is False
    assert len(record["problems"]) == 2
    assert any("\n  known: architecture" in problem for problem in record["problems"])


def test_a_sound_task_as_json(run):
    assert json.loads(run("validate", "dates", "--json").out) == {"valid": True, "problems": []}
    [unknown] = json.loads(run("validate", "datse", "--json").out)["problems"]
    assert unknown.startswith("unknown task 'datse' (did you mean 'dates'?)\n  known: ")


def test_a_folder_in_place_of_a_task_is_told_with_the_file_in_it(run, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/task.yaml").write_text("extends: dates")
    for name in ("mine/", "mine"):
        outcome = run("validate", name)
        assert (outcome.status, outcome.err.splitlines()[-1]) == (2, "  write mine/task.yaml")


TASK = """\
type: classification
data:
  name: table
  files: {train: here.tsv, test: [gone.tsv]}
  columns: {text: body, text_b: title, label: class}
  split: {validation: 0.1}
tokenizer: words
model: {architecture: encoder-only, width: 15, head: classifier}
"""


def test_files_and_columns_are_looked_for(run, tmp_path):
    (tmp_path / "here.tsv").write_text("class\tbody\na\tb\n")
    (tmp_path / "task.yaml").write_text(TASK)
    outcome = run("validate", "task.yaml")
    columns, *width = [line for line in outcome.err.splitlines() if not line.startswith(" ")]
    assert "unknown key 'text_b'" in columns
    assert all("width" in line or "heads" in line for line in width)  # all mistakes together
    assert width
    (tmp_path / "task.yaml").write_text(TASK.replace("gone", "here").replace(" text_b: title,", ""))
    (tmp_path / "here.tsv").write_text("clas\tbody\na\tb\n")
    outcome = run("validate", "task.yaml", "--set", "model.width=16")
    assert "task.yaml:5:12  data.columns: " in outcome.err
    assert "there is no column 'class' (did you mean 'clas'?)" in outcome.err
    (tmp_path / "here.tsv").write_text("class\tbody\na\tb\n")
    assert run("validate", "task.yaml", "--set", "model.width=16").out.startswith("OK")


def test_a_model_is_shown_without_reading_data_unless_asked(run, monkeypatch):
    def refuse(*_):
        raise DataError("the data are read")

    monkeypatch.setattr("plugformer_cli.model_summary.prepare", refuse)
    assert "8,000 outputs (assumed; --data" in " ".join(run("info", "dates").out.split())
    assert "the data are read" in run("info", "dates", "--data").err
    bpe = run("info", "dates", "--set", "tokenizer={name: bpe, size: 300, shared: true}").out
    assert "300 input tokens, 300 outputs" in " ".join(bpe.split())
