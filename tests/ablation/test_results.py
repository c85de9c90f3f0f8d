import math

import numpy as np
import pytest

from plugformer.errors import RunError
from plugformer_ablation.results import ArmRecord, CellResult, StudyResults, create_metrics

BLOCKS = {"exact_match": {"name": "exact_match"}}


def results(registry):
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
        ArmRecord("baseline", {"attention": "mha"}, None, {"type": "x"}),
        ArmRecord("attention=gqa", {"attention": "gqa"}, "baseline", {}, ("parameters +2 %",), {"lr": 0.1}),
    )
    study = {"study": "a title", "metric": "exact_match", "seeds": [1, 2]}
    return StudyResults(study, arms, cells, BLOCKS, {"core": "abc"}, create_metrics(BLOCKS, registry))


def test_saved_results_read_back_as_they_were(registry, tmp_path):
    written = results(registry)
    written.save(tmp_path)
    read = StudyResults.load(tmp_path, registry)
    assert (read.study, read.arms, read.blocks, read.made_of) == (
        written.study,
        written.arms,
        written.blocks,
        written.made_of,
    )
    for mine, theirs in zip(written.cells, read.cells, strict=True):
        assert str(mine.as_json()) == str(theirs.as_json())
        assert mine.statistics.keys() == theirs.statistics.keys()
    statistics = read.cells[0].statistics["exact_match"]
    assert read.metrics["exact_match"].aggregate(statistics) == 0.5


def test_a_failed_cell_has_no_loss_and_is_left_out(registry, tmp_path):
    results(registry).save(tmp_path)
    read = StudyResults.load(tmp_path, registry)
    assert math.isnan(read.cells[2].loss)
    assert read.cells_of("attention=gqa") == []
    assert [cell.seed for cell in read.cells_of("baseline")] == [1, 2]


@pytest.mark.parametrize("name", ["results.json", "statistics.npz"])
def test_a_damaged_file_is_named(name, registry, tmp_path):
    results(registry).save(tmp_path)
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:30])
    with pytest.raises(RunError, match=name):
        StudyResults.load(tmp_path, registry)


def test_arrays_of_objects_are_not_unpickled(registry, tmp_path):
    results(registry).save(tmp_path)
    np.savez(tmp_path / "statistics.npz", **{"0/exact_match": np.array([{}], dtype=object)})
    with pytest.raises(RunError, match="statistics"):
        StudyResults.load(tmp_path, registry)
