"""The schema of `report.json`: every report validates, and nothing else does."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from plugformer.errors import RunError
from plugformer.registry import Registry
from plugformer_ablation import report_schema
from plugformer_ablation.judging.findings import find
from plugformer_ablation.judging.results import CellResult, StudyResults
from plugformer_ablation.reporting.report import StudyReport

jsonschema = pytest.importorskip("jsonschema", reason="comes with the dev extra")
PUBLISHED = sorted((Path(__file__).parents[2] / "docs/studies").glob("*/report.json"))
FAILED = (CellResult("other", 2, failure="it broke"), *(CellResult("gone", n, failure="so") for n in (1, 2)))


@pytest.fixture(scope="module")
def validator():
    schema = report_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.fixture(scope="module")
def folder(made_up, tmp_path_factory):
    """A report with what can be missing in one: cells that failed, an equivalence, trials."""
    results = made_up({"baseline": 0.9, "other": 0.6, "gone": 0.6, "same": 0.9}, 2, 40, cells=FAILED)
    trial = {"arm": "other", "tuned": {"x.y": 1}, "share": 0.5, "seed": 2**20, "loss": None, "seconds": 1.0}
    trial |= {"metrics": {"exact_match": 0.5}, "diverged": "the loss", "failure": None}
    study = {**results.study, "smallest_effect": 0.1}
    out = tmp_path_factory.mktemp("report")
    StudyReport(find(replace(results, study=study, trials=(trial,)))).write(out, lambda _: None)
    return out


@pytest.mark.parametrize("file", PUBLISHED, ids=lambda file: file.parent.name)
def test_published_reports_validate(validator, file):
    validator.validate(json.loads(file.read_text(encoding="utf-8")))


def test_a_report_with_failures_margins_and_trials_validates(validator, folder):
    validator.validate(json.loads((folder / "report.json").read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda record: record.update(format=2), "format"),
        (lambda record: record["comparisons"][0].pop("verdict"), "comparisons.0.verdict"),
        (lambda record: record["arms"][1].update(mood="good"), "arms.1.mood"),
        (lambda record: record["spent"].update(trials="two"), "spent.trials"),
    ],
)
def test_another_content_is_refused_with_its_place(validator, folder, tmp_path, change, place):
    record = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    change(record)
    assert not validator.is_valid(record)
    (tmp_path / "report.json").write_text(json.dumps(record))
    (tmp_path / "cells.npz").write_bytes((folder / "cells.npz").read_bytes())
    with pytest.raises(RunError, match=place):
        StudyResults.load(tmp_path, Registry.discover())


def test_an_earlier_report_without_choices_is_read(validator, folder, tmp_path):
    record = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    for arm in record["arms"]:
        assert arm.pop("choices") == []
    validator.validate(record)
    (tmp_path / "report.json").write_text(json.dumps(record))
    (tmp_path / "cells.npz").write_bytes((folder / "cells.npz").read_bytes())
    assert StudyResults.load(tmp_path, Registry.discover()).arms[0]["choices"] == []
