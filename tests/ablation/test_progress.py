"""What a terminal shows while the cells of a study run."""

import io
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from rich.console import Console

from plugformer_ablation.cells import Cell
from plugformer_ablation.executors import RayExecutor
from plugformer_ablation.running import StudyProgress
from plugformer_ablation.training import Message


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


def test_a_dead_worker_of_ray_leaves_the_log_of_its_cell(monkeypatch):
    class RayError(Exception):
        pass

    ray = Mock(exceptions=Mock(RayError=RayError))
    ray.get.side_effect = RayError("python-core-worker-*.log")
    ray.wait.side_effect = lambda references, timeout: (references, [])
    monkeypatch.setitem(sys.modules, "ray", ray)
    executor, cell = RayExecutor(), Cell("base", 1, "", Path("cell"), {}, ())
    executor.start(cell)
    ((ended, message),) = executor.receive()
    assert ended is cell
    assert str(cell.log) in message.failure
    assert "core-worker" not in message.failure
