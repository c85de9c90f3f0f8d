import json
import math
import shutil
from dataclasses import replace

import numpy as np
import pytest

from plugformer.errors import RunError
from plugformer.registry import Registry
from plugformer_ablation.judging.findings import find
from plugformer_ablation.judging.results import CellResult, StudyResults, load_arrays
from plugformer_ablation.reporting.report import StudyReport
from plugformer_plugins.metric.accuracy import ExactMatch


def test_arrays_of_objects_are_not_unpickled(tmp_path):
    np.savez(tmp_path / "statistics.npz", **{"0/exact_match": np.array([{}], dtype=object)})
    with pytest.raises(RunError, match=r"statistics\.npz .*allow_pickle"):
        load_arrays(tmp_path / "statistics.npz")


FAILED = (
    CellResult("other", 2, failure="it diverged"),
    *(CellResult("gone", seed, failure="it broke") for seed in (1, 2, 3)),
)


@pytest.fixture(scope="module")
def written(made_up, tmp_path_factory):
    """A report in a folder, and the findings that it tells."""
    found = find(made_up({"baseline": 0.9, "other": 0.6, "gone": 0.6}, 3, 40, cells=FAILED))
    cells = tuple(
        cell
        if cell.failure
        else replace(
            cell,
            metrics={"exact_match": cell.metrics["exact_match"]},
            curve=[{"step": 1, "loss": math.nan, "metrics": {}}],
        )
        for cell in found.results.cells
    )
    metrics = {key: {"exact_match": ExactMatch()} for key in found.results.metrics}
    found = find(replace(found.results, cells=cells, metrics=metrics))
    folder = tmp_path_factory.mktemp("published")
    StudyReport(found).write(folder, print)
    return folder, found


def test_a_report_is_written_again_from_its_files_alone(written, tmp_path):
    folder, found = written
    for name in ("report.json", "cells.npz"):
        shutil.copy(folder / name, tmp_path)
    again = find(StudyResults.load(tmp_path, Registry.discover()))
    assert again.record == found.record
    StudyReport(again).write(tmp_path, print)
    names = {file.name for file in folder.iterdir()}
    assert {file.name for file in tmp_path.iterdir()} == names
    assert [name for name in names if (folder / name).read_bytes() != (tmp_path / name).read_bytes()] == []


def test_a_report_whose_score_was_changed_is_refused(written, tmp_path):
    record = json.loads((written[0] / "report.json").read_text())
    record["cells"][1]["metrics"]["exact_match"] = 0.123
    (tmp_path / "report.json").write_text(json.dumps(record))
    shutil.copy(written[0] / "cells.npz", tmp_path)
    with pytest.raises(RunError, match=r"report\.json was changed: it states exact_match 0\.123"):
        StudyResults.load(tmp_path, Registry.discover())


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
def test_damaged_files_of_a_report_are_named(written, tmp_path, name, change):
    for file in ("report.json", "cells.npz"):
        shutil.copy(written[0] / file, tmp_path)
    (tmp_path / name).write_bytes(change((tmp_path / name).read_bytes()))
    with pytest.raises(RunError, match=name):
        StudyResults.load(tmp_path, Registry.discover())
