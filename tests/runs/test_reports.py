"""Reports of a task with constraints: the scores with them, and without."""

import re
from pathlib import Path

from plugformer.runs.directory import RunDirectory
from plugformer.runs.store import read_json
from plugformer_cli.printing import print_report

PATTERN = 'decoding.pattern="[0-9]{2}"'


def test_scores_stand_beside_those_without_constraints(tmp_path: Path, train_tiny, capsys) -> None:
    metric = "evaluation.metrics=[exact_match, token_accuracy]"
    report = train_tiny(tmp_path / "run", PATTERN, metric)
    assert set(report.metrics) == {"exact_match", "token_accuracy"}
    assert set(report.unconstrained) == {"exact_match"}  # token accuracy knows no constraints
    assert read_json(RunDirectory(tmp_path / "run").path / "evaluation.json")["test"]["unconstrained"]
    print_report(report, as_json=False)
    assert re.search(r"^test +exact_match, without constraints +0\.0", capsys.readouterr().out, re.MULTILINE)


def test_the_two_scores_differ_where_constraints_hold(tmp_path: Path, train_tiny) -> None:
    free = train_tiny(tmp_path / "free", "training.steps=40")
    report = train_tiny(tmp_path / "run", PATTERN, "training.steps=40", "evaluation.metrics=[chrf]")
    other = train_tiny(tmp_path / "other", "training.steps=40", "evaluation.metrics=[chrf]")
    assert free.unconstrained == {}
    assert report.unconstrained["chrf"] == other.metrics["chrf"]
    assert report.metrics["chrf"] != other.metrics["chrf"]
