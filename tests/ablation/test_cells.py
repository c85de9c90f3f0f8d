"""The files of a cell, and the hash in its name."""

import json
from pathlib import Path

import numpy as np

from plugformer_ablation.running.cells import Cell, identity
from plugformer_plugins.metric.accuracy import ExactMatch

KEPT = """{
  "arm": "baseline", "seed": 1, "loss": 2.5, "metrics": {"exact_match": 0.5},
  "curve": [{"step": 3, "loss": 3.5, "metrics": {"exact_match": 0.25}}],
  "peak_memory_mb": 585.9,
  "seconds": 0.5, "directory": "/elsewhere/cells/baseline-seed-1-41bb2d8372f5", "failure": null
}"""
PARTS = {
    "format": 1,
    "task": {"type": "x", "training": {"seed": 1}},
    "split": "test",
    "data": {"train": "ab"},
}


def test_a_finished_cell_is_read(tmp_path: Path) -> None:
    cell = Cell("baseline", 1, "", tmp_path, {}, (), "best")
    assert not cell.finished
    (tmp_path / "cell.json").write_text(KEPT)
    np.savez_compressed(tmp_path / "cell_statistics.npz", exact_match=np.array([[1.0], [0.0]]))
    assert cell.finished
    found = cell.result({"exact_match": ExactMatch()})
    (tmp_path / "again").mkdir()
    found.save(tmp_path / "again")
    written = json.loads((tmp_path / "again/cell.json").read_text())
    new = {"diverged": None, "inconsistent": [], "tokens": 0, "threads": 0, "validation": {}}  # since added
    assert written == {**json.loads(KEPT), "directory": str(tmp_path), **new}
    assert found.statistics["exact_match"].tolist() == [[1.0], [0.0]]


def test_the_name_of_a_cell_depends_on_its_ingredients_alone() -> None:
    assert identity(PARTS, Path("studies")) == "f0fac43f6934"
