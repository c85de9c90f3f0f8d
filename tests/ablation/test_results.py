import json

import numpy as np
import pytest

from plugformer.errors import RunError
from plugformer_ablation.results import CellResult, StudyResults, load_arrays

BLOCKS = {"exact_match": {"name": "exact_match"}}


def results():
    cells = (
        CellResult(
            "baseline",
            2,
            loss=0.5,
            metrics={"exact_match": 0.5},
            statistics={"exact_match": np.array([[1.0], [0.0]])},
            curve=[{"step": 4, "loss": 0.7, "metrics": {"exact_match": 0.25}}],
            parameters=10,
        ),
        CellResult("baseline", 1, loss=0.5, statistics={"exact_match": np.array([[1.0], [1.0]])}),
        CellResult("attention=gqa", 1, failure="it broke"),
    )
    arms = (
        {"name": "baseline", "values": {"attention": "mha"}, "baseline": None, "task": {"type": "x"}},
        {"name": "attention=gqa", "values": {"attention": "gqa"}, "baseline": "baseline", "task": {}},
    )
    study = {"study": "a title", "metric": "exact_match", "seeds": [1, 2]}
    return StudyResults(study, arms, cells, BLOCKS, {"core": "abc"}, {})


def test_results_are_written_whole(tmp_path):
    written = results()
    written.save(tmp_path)
    record = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert (record["study"], record["made_of"], record["metrics"]) == (written.study, written.made_of, BLOCKS)
    assert record["arms"] == list(written.arms)
    assert [cell["loss"] for cell in record["cells"]] == [0.5, 0.5, None]
    with np.load(tmp_path / "statistics.npz") as arrays:
        for number, cell in enumerate(record["cells"]):
            name = f"{number}/exact_match"
            statistics = {"exact_match": arrays[name]} if name in arrays else {}
            mine, theirs = written.cells[number], CellResult.from_json(cell, statistics)
            assert str(mine) == str(theirs)


def test_a_failed_cell_is_left_out():
    found = results()
    assert found.cells_of("attention=gqa") == []
    assert [cell.seed for cell in found.cells_of("baseline")] == [1, 2]


def test_arrays_of_objects_are_not_unpickled(tmp_path):
    np.savez(tmp_path / "statistics.npz", **{"0/exact_match": np.array([{}], dtype=object)})
    with pytest.raises(RunError, match="statistics"):
        load_arrays(tmp_path / "statistics.npz")
