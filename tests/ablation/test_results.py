import numpy as np
import pytest

from plugformer_ablation.results import CellResult, StudyResults, load_arrays


def results():
    cells = (
        CellResult(
            "baseline",
            2,
            loss=0.5,
            metrics={"exact_match": 0.5},
            statistics={"exact_match": np.array([[1.0], [0.0]])},
            curve=[{"step": 4, "loss": 0.7, "metrics": {"exact_match": 0.25}}],
            peak_memory_mb=10.0,
        ),
        CellResult("baseline", 1, loss=0.5, statistics={"exact_match": np.array([[1.0], [1.0]])}),
        CellResult("attention=gqa", 1, failure="it broke"),
    )
    arms = (
        {"name": "baseline", "values": {"attention": "mha"}, "baseline": None, "task": {"type": "x"}},
        {"name": "attention=gqa", "values": {"attention": "gqa"}, "baseline": "baseline", "task": {}},
    )
    study = {"study": "a title", "metric": "exact_match", "seeds": [1, 2]}
    return StudyResults(study, arms, cells, {"core": "abc"}, {})


def test_a_cell_is_read_as_it_was_written(tmp_path):
    for number, cell in enumerate(results().cells):
        (tmp_path / str(number)).mkdir()
        cell.save(tmp_path / str(number))
        assert str(CellResult.load(tmp_path / str(number))) == str(cell)


def test_arrays_of_objects_are_not_unpickled(tmp_path):
    np.savez(tmp_path / "statistics.npz", **{"0/exact_match": np.array([{}], dtype=object)})
    with pytest.raises(ValueError, match="allow_pickle"):
        load_arrays(tmp_path / "statistics.npz")
