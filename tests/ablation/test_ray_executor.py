"""Cells on a Ray cluster of this machine."""

import time
from dataclasses import replace

import pytest
from tests.ablation.test_local_executor import cells

from plugformer_ablation.running.ray_executor import RayExecutor

ray = pytest.importorskip("ray", reason="comes with the ray extra")

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("default")]  # Ray warns of its own future

SLOW = ["training.steps=100000", "training.evaluate_every=1", "training.batches_per_update=400"]
"""One update takes seconds: cells cannot stop as soon as they are asked to."""


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init("local", num_cpus=2, log_to_driver=False, include_dashboard=False)
    yield
    ray.shutdown()


def test_cells_on_a_cluster_end_as_here(registry, tmp_path):
    waiting = cells(tmp_path, registry)
    messages = [message for _, message in filter(None, RayExecutor().events(waiting))]
    assert [message.failure for message in messages if message.ended] == [None, None]
    assert all(cell.result({}).loss > 0 for cell in waiting)


def test_asked_to_stop_cells_on_a_cluster_save_what_they_have(registry, tmp_path):
    executor = RayExecutor()
    waiting = cells(tmp_path, registry, *SLOW)
    deadline, stopped = time.monotonic() + 600, []
    for event in executor.events(waiting):
        assert time.monotonic() < deadline
        if all(list((cell.folder / "checkpoints").glob("step-*")) for cell in waiting):
            executor.stop()
        if event is not None and event[1].stopped:
            stopped.append(event[0])
    assert len(stopped) == 2
    assert all("Resume with" in cell.log.read_text() for cell in waiting)


def test_a_failing_cell_on_a_cluster_fails_alone(registry, tmp_path):
    waiting = cells(tmp_path, registry)
    waiting[0] = replace(waiting[0], ingredients={**waiting[0].ingredients, "task": {"type": "nonsense"}})
    messages = filter(None, RayExecutor().events(waiting))
    failures = {cell.seed: message.failure for cell, message in messages if message.ended}
    assert "nonsense" in failures[1]
    assert failures[2] is None
