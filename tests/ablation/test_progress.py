"""What a terminal shows while the cells of a study run."""

import io
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from rich.console import Console

from plugformer_ablation.running import executors
from plugformer_ablation.running.cells import Cell
from plugformer_ablation.running.claims import take
from plugformer_ablation.running.executors import LocalExecutor
from plugformer_ablation.running.ray_executor import RayExecutor
from plugformer_ablation.running.running import StudyProgress
from plugformer_ablation.running.training import Message


@pytest.mark.parametrize("arm", ["layers=[1, 2]", "inputs=[a, b]", "files=[/tmp/a.csv]"])
def test_a_terminal_shows_the_name_of_an_arm_as_it_is(arm):
    shown = io.StringIO()
    cell = Cell(arm, 1, "", Path("cell"), {}, ())
    with StudyProgress(Console(file=shown, force_terminal=True, width=80), 2, 0) as progress:
        progress.show((cell, Message(3, 10)))
        progress.refresh()
        progress.show((cell, Message(failure="it broke")))
    assert f"{arm}, seed 1 " in shown.getvalue()
    assert f"[1/2] {arm}, seed 1: failed: it broke" in shown.getvalue()


@pytest.fixture
def ray(monkeypatch):
    """A stand-in for Ray, on whose cluster nothing ends."""
    ray = Mock(exceptions=Mock(RayError=type("RayError", (Exception,), {})))
    ray.wait.side_effect = lambda references, timeout: ([], references)
    monkeypatch.setitem(sys.modules, "ray", ray)
    return ray


def test_claims_say_how_far_cells_on_a_cluster_are(ray, tmp_path):
    executor, cell = RayExecutor(), Cell("base", 1, "", tmp_path / "cell", {}, ())
    claim = take(cell.folder)
    claim.advance(3, 10)
    claim.note()
    executor.start(cell)
    assert [*executor.receive()] == [(cell, Message(3, 10))]
    assert [*executor.receive()] == [], "not more often than claims are renewed"


@pytest.mark.parametrize(("gpus", "pack", "share"), [(8, 1, 1), (8, 4, 0.25), (0, 4, 0)])
def test_cells_share_gpus(ray, monkeypatch, gpus, pack, share):
    ray.cluster_resources.return_value = {"GPU": gpus}
    RayExecutor(pack=pack).start(Cell("base", 1, "", Path("cell"), {}, ()))
    assert ray.remote.call_args.kwargs["num_gpus"] == share
    monkeypatch.setattr(executors, "visible_gpus", lambda: [*map(str, range(gpus))])
    assert LocalExecutor(pack=pack).workers == (gpus * pack or executors.available_cores())


def test_a_dead_worker_of_ray_leaves_the_log_of_its_cell(ray):
    ray.get.side_effect = ray.exceptions.RayError("python-core-worker-*.log")
    ray.wait.side_effect = lambda references, timeout: (references, [])
    executor, cell = RayExecutor(), Cell("base", 1, "", Path("cell"), {}, ())
    executor.start(cell)
    ((ended, message),) = executor.receive()
    assert ended is cell
    assert str(cell.log) in message.failure
    assert "core-worker" not in message.failure
