"""Reports of a task with constraints: the scores with them, and without."""

import re
from pathlib import Path

from plugformer.runs.directory import RunDirectory
from plugformer.runs.store import read_json
from plugformer_cli.printing import print_report

PATTERN = 'decoding.pattern="[0-9]{2}"'


def test_scores_with_constraints_stand_beside_those_without(tmp_path: Path, train_tiny, capsys) -> None:
    settings = (
        "training.steps=40",
        "evaluation.metrics=[chrf, token_accuracy]",
        "training.evaluate_every=40",
    )
    free = train_tiny(tmp_path / "free", *settings)
    report = train_tiny(tmp_path / "run", PATTERN, *settings)
    assert free.unconstrained == {}
    assert set(report.metrics) == {"chrf", "token_accuracy"}
    assert report.unconstrained == {"chrf": free.metrics["chrf"]}  # token accuracy knows no constraints
    assert report.metrics["chrf"] != free.metrics["chrf"]
    assert read_json(RunDirectory(tmp_path / "run").path / "evaluation.json")["test"]["unconstrained"]
    print_report(report, as_json=False)
    assert re.search(r"^test +chrf, without constraints +\d", capsys.readouterr().out, re.MULTILINE)
