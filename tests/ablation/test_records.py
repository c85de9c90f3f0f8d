"""The files of a report: their schema, what is read from them again, and what is refused."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.ablation.studies import with_cells

from plugformer.errors import RunError
from plugformer.registry import Registry
from plugformer_ablation import report_schema
from plugformer_ablation.judging.findings import find
from plugformer_ablation.judging.results import CellResult, StudyResults, load_arrays
from plugformer_ablation.reporting.report import StudyReport
from plugformer_plugins.metric.accuracy import ExactMatch

jsonschema = pytest.importorskip("jsonschema", reason="comes with the dev extra")
PUBLISHED = sorted((Path(__file__).parents[2] / "docs/studies").glob("*/report.json"))
FAILED = (CellResult("other", 2, failure="it broke"), *(CellResult("gone", n, failure="so") for n in (1, 2)))
TRIAL = {
    "arm": "other",
    "tuned": {"x.y": 1},
    "share": 0.5,
    "seed": 2**20,
    "loss": None,
    "seconds": 1.0,
    "metrics": {"exact_match": 0.5},
    "diverged": "the loss",
    "failure": None,
}


@pytest.fixture(scope="module")
def validator():
    schema = report_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def partial(cell):
    """Leaves out of a cell what there may be none of."""
    metrics = {name: score for name, score in cell.metrics.items() if name == "exact_match"}
    return {"metrics": metrics, "curve": [{"step": 1, "loss": math.nan, "metrics": {}}]}


@pytest.fixture(scope="module")
def written(made_up, tmp_path_factory):
    """A report with what can be missing in one, cells that failed and trials; and its findings."""
    results = made_up({"baseline": 0.9, "other": 0.6, "gone": 0.6, "same": 0.9}, 2, 40, cells=FAILED)
    metrics = {key: {"exact_match": ExactMatch()} for key in results.metrics}
    study = {**results.study, "smallest_effect": 0.1}
    found = find(with_cells(replace(results, study=study, metrics=metrics, trials=(TRIAL,)), partial))
    folder = tmp_path_factory.mktemp("published")
    StudyReport(found).write(folder, print)
    return folder, found


@pytest.fixture
def copy(written, tmp_path):
    """The two files that a report is read from, to be changed."""
    for name in ("report.json", "cells.npz"):
        shutil.copy(written[0] / name, tmp_path)
    return tmp_path


def edit(folder, change):
    """Changes `report.json`, and returns what it then says."""
    record = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    change(record)
    (folder / "report.json").write_text(json.dumps(record))
    return record


@pytest.mark.parametrize("file", PUBLISHED, ids=lambda file: file.parent.name)
def test_published_reports_validate(validator, file):
    validator.validate(json.loads(file.read_text(encoding="utf-8")))


def test_a_report_is_written_again_from_its_files_alone(validator, written, copy):
    folder, found = written
    validator.validate(json.loads((copy / "report.json").read_text(encoding="utf-8")))
    again = find(StudyResults.load(copy, Registry.discover()))
    assert again.record == found.record
    StudyReport(again).write(copy, print)
    names = {file.name for file in folder.iterdir()}
    assert {file.name for file in copy.iterdir()} == names
    assert [name for name in names if (folder / name).read_bytes() != (copy / name).read_bytes()] == []


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda record: record.update(format=2), "format"),
        (lambda record: record["comparisons"][0].pop("verdict"), "comparisons.0.verdict"),
        (lambda record: record["arms"][1].update(mood="good"), "arms.1.mood"),
        (lambda record: record["spent"].update(trials="two"), "spent.trials"),
    ],
)
def test_another_content_is_refused_with_its_place(validator, copy, change, place):
    assert not validator.is_valid(edit(copy, change))
    with pytest.raises(RunError, match=place):
        StudyResults.load(copy, Registry.discover())


def test_an_earlier_report_without_choices_is_read(validator, copy):
    validator.validate(edit(copy, lambda record: [arm.pop("choices") for arm in record["arms"]]))
    assert StudyResults.load(copy, Registry.discover()).arms[0]["choices"] == []


def test_a_report_whose_score_was_changed_is_refused(copy):
    edit(copy, lambda record: record["cells"][1]["metrics"].update(exact_match=0.123))
    with pytest.raises(RunError, match=r"report\.json was changed: it states exact_match 0\.123"):
        StudyResults.load(copy, Registry.discover())


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("report.json", lambda content: content[:-20]),
        ("report.json", lambda content: b"[]"),
        ("report.json", lambda content: content.replace(b'"cells": [', b'"rows": [')),
        ("report.json", lambda content: content.replace(b'"seed": 2', b'"seed": "two"')),
        ("cells.npz", lambda content: content[: len(content) // 2]),
        ("cells.npz", lambda content: b""),
        ("cells.npz", lambda content: content[:80] + b"x" * 20 + content[100:]),
    ],
)
def test_damaged_files_of_a_report_are_named(copy, name, change):
    (copy / name).write_bytes(change((copy / name).read_bytes()))
    with pytest.raises(RunError, match=name):
        StudyResults.load(copy, Registry.discover())


def test_arrays_of_objects_are_not_unpickled(tmp_path):
    np.savez(tmp_path / "statistics.npz", **{"0/exact_match": np.array([{}], dtype=object)})
    with pytest.raises(RunError, match=r"statistics\.npz .*allow_pickle"):
        load_arrays(tmp_path / "statistics.npz")
