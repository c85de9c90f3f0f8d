"""Cells in processes of their own: side by side, interrupted, killed, orphaned."""

import io
import os
import signal
import time
from unittest.mock import Mock

import pytest
from rich.console import Console
from tests.ablation.studies import declared

from plugformer.errors import InterruptedRunError
from plugformer.runs.directory import is_being_trained
from plugformer_ablation.design.arms import resolve_arms
from plugformer_ablation.design.matching import matched
from plugformer_ablation.running import executors
from plugformer_ablation.running.cells import make_cells
from plugformer_ablation.running.executors import LocalExecutor
from plugformer_ablation.running.running import run_study

pytestmark = pytest.mark.skipif(not hasattr(os, "killpg"), reason="process groups are POSIX's")

LONG = ["training.steps=100000", "training.evaluate_every=20"]


def cells(out, registry, *settings, seeds=2):
    study = declared(settings=settings, seeds=seeds)
    arm = matched(resolve_arms(study, registry), study, str)[0]
    return make_cells(arm, study.seed_list, out, {})


def advanced(executor, waiting):
    """Yields cells and what is told of them, with an end: a test must not hang."""
    deadline = time.monotonic() + 600
    for event in executor.events(waiting):
        assert time.monotonic() < deadline
        if event is not None:
            yield event


@pytest.mark.parametrize(
    ("gpus", "expected"), [((), [None] * 3), (("2", "5"), ["2", "5", "2"]), (("0",), ["0"] * 3)]
)
def test_cells_are_spread_over_the_gpus(gpus, expected, monkeypatch):
    monkeypatch.setattr(executors, "visible_gpus", lambda: list(gpus))
    executor = LocalExecutor(3)
    started = Mock(side_effect=lambda *_: (Mock(), object()))
    monkeypatch.setattr(executors, "start_process", started)
    for number in range(3):
        executor.start(f"cell {number}")
    assert [call.args[1] for call in started.call_args_list] == expected


def test_a_worker_sees_its_gpu_alone(monkeypatch):
    seen = []
    monkeypatch.setattr(executors, "work_on", lambda *_: seen.append(os.environ["CUDA_VISIBLE_DEVICES"]))
    monkeypatch.setattr(os, "setpgid", lambda *_: None)
    monkeypatch.setattr(executors, "_end_with_parent", lambda connection: None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    executors.run_on("2", executors.work, None, 1, Mock())
    assert seen == ["2"]


def test_cells_run_side_by_side_and_as_alone(registry, tmp_path):
    waiting = cells(tmp_path, registry)
    ended = [message for _, message in advanced(LocalExecutor(2), waiting) if message.ended]
    assert [message.failure for message in ended] == [None, None]
    alone = cells(tmp_path / "alone", registry, seeds=1)
    list(advanced(LocalExecutor(2), alone))  # with as many threads
    assert waiting[0].result({}).loss == alone[0].result({}).loss
    assert waiting[0].result({}).peak_memory_mb > 50


def test_asked_to_stop_cells_save_what_they_have(registry, tmp_path):
    executor = LocalExecutor(2)
    waiting = cells(tmp_path, registry, *LONG, seeds=3)
    seen, stopped = set(), []
    for cell, message in advanced(executor, waiting):
        if message.step is not None:
            seen.add(cell.name)
        if len(seen) == 2:
            executor.stop()
        if message.stopped:
            stopped.append(cell.name)
    assert sorted(stopped) == [cell.name for cell in waiting[:2]]  # the third was never begun
    assert all(list((cell.folder / "checkpoints").glob("step-*")) for cell in waiting[:2])
    assert not waiting[2].folder.exists()


def test_a_killed_worker_fails_its_cell_alone(registry, tmp_path):
    executor = LocalExecutor(2)
    waiting = cells(tmp_path, registry, "training.steps=300")
    killed, failures = False, {}
    for cell, message in advanced(executor, waiting):
        if message.step is not None and cell is waiting[0] and not killed:
            process = next(
                worker.process for worker in executor.running.values() if worker.cell is waiting[0]
            )
            os.kill(process.pid, signal.SIGKILL)
            killed = True
        if message.ended:
            failures[cell.name] = message.failure
    assert "SIGKILL, perhaps because memory ran out: try fewer --workers" in failures[waiting[0].name]
    assert failures[waiting[1].name] is None


def test_who_leaves_early_leaves_no_process_behind(registry, tmp_path):
    waiting = cells(tmp_path, registry, *LONG, seeds=1)
    events = LocalExecutor(1).events(waiting)
    while next(events) is None:
        pass
    assert is_being_trained(waiting[0].folder)
    events.close()
    assert not is_being_trained(waiting[0].folder)


def test_ctrl_c_stops_a_study_and_the_same_command_goes_on(registry, tmp_path):
    study = declared(settings=LONG)

    class Interrupting(LocalExecutor):
        def events(self, waiting):
            for event in super().events(waiting):
                if event is not None and event[1].step is not None:
                    signal.raise_signal(signal.SIGINT)
                yield event

    with pytest.raises(InterruptedRunError, match=r"stopped by SIGINT: 0 of 4 cells"):
        run_study(study, tmp_path, registry, Interrupting(2), Console(file=io.StringIO()))
    assert not any(is_being_trained(folder) for folder in (tmp_path / "cells").glob("*/"))
