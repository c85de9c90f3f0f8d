"""Workers that train the cells of a study in a folder that they share, and what is said of them meanwhile."""

import io
import json
import os
import signal
import time
from itertools import count

import pytest
from rich.console import Console
from tests.ablation.studies import declared, options, run
from tests.ablation.test_local_executor import cells
from tests.forking import Forked

from plugformer.errors import RunError
from plugformer_ablation.command import AGAIN
from plugformer_ablation.running import executors, training
from plugformer_ablation.running.claims import take
from plugformer_ablation.running.executors import LocalExecutor, SharingExecutor
from plugformer_ablation.running.running import run_study
from plugformer_ablation.running.status import status_text, study_status

TUNE = ("training.optimizer.lr=[0.0001, 0.01]",)


@pytest.fixture
def console():
    return Console(file=io.StringIO(), soft_wrap=True)


@pytest.fixture
def trained(monkeypatch):
    """Names of the cells that this process trains; a test may let some of them fail."""
    begun, train_cell = [], training.train_cell

    def train(cell, *arguments):
        begun.append(str(cell))
        if str(cell) in train.failing:
            raise RunError("it broke")
        train_cell(cell, *arguments)

    train.failing, train.begun = [], begun
    monkeypatch.setattr(training, "train_cell", train)
    return train


def table(results):
    return [(cell.arm, cell.seed, cell.loss, cell.metrics) for cell in results.cells]


def test_workers_train_what_others_do_not_and_draw_the_same_conclusions(
    registry, console, tmp_path, trained, monkeypatch
):
    """A worker begins while another is in the middle of a cell: stage after stage, both do the same."""
    study, out, work_on = declared(tune=TUNE), tmp_path / "s", executors.work_on
    second, begun_in = [], {1: [], 2: []}

    def interrupting(cell, *arguments, **options):
        message = work_on(cell, *arguments, **options)
        begun_in[1 + bool(second)].append(str(cell))
        if len(begun_in[1]) == 2 and not second:
            second.append(None)
            run_study(study, out, registry, SharingExecutor(), console)
            second.clear()
        return message

    monkeypatch.setattr(executors, "work_on", interrupting)
    run_study(study, out, registry, SharingExecutor(), console)
    assert len(begun_in[1]) == 2
    assert len(trained.begun) == len(set(trained.begun)) == len(begun_in[1] + begun_in[2])
    before = len(trained.begun)
    results = run_study(study, out, registry, LocalExecutor(1), console)
    assert len(trained.begun) == before, "the report needs no training"
    assert table(results) == table(run(study, tmp_path / "alone", registry, console)[0])
    assert not [file for file in (out / "cells").iterdir() if ".claim" in file.name]


@pytest.mark.parametrize("looked", [True, False], ids=["held", "taken while it began"])
def test_a_cell_of_another_process_is_waited_for(registry, tmp_path, monkeypatch, looked):
    waiting, pauses = cells(tmp_path, registry), []
    claim = take(waiting[0].folder)
    if not looked:
        real, seen = executors.state_of, {waiting[0].folder}
        monkeypatch.setattr(
            executors,
            "state_of",
            lambda folder: ("waiting", {}) if seen & {folder} and not seen.clear() else real(folder),
        )
    monkeypatch.setattr(executors.time, "sleep", lambda seconds: pauses.append(claim.settle()))
    ended = [cell for cell, message in filter(None, SharingExecutor().events(waiting)) if message.ended]
    assert ended == waiting[::-1]
    assert len(pauses) == 1


def test_a_failure_is_final_for_all_until_its_claim_is_removed(registry, console, tmp_path, trained):
    out = tmp_path / "s"
    trained.failing = ["baseline, seed 1"]
    run_study(declared(), out, registry, SharingExecutor(), console)
    trained.failing = []
    run_study(declared(), out, registry, SharingExecutor(), console)
    results, _ = run(declared(), out, registry, console)
    assert len(trained.begun) == 4
    assert [cell.failure for cell in results.cells] == ["it broke", None, None, None]
    (failed,) = study_status(out)["failed"]
    assert (failed["cell"], failed["failure"]) == ("baseline, seed 1", "it broke")
    (out / "cells" / f"{failed['name']}.claim-1").unlink()
    results, begun = run(declared(), out, registry, console)
    assert begun == ["baseline, seed 1"]
    assert not any(cell.failure for cell in results.cells)


def test_code_that_changes_ends_the_worker_and_not_the_study(registry, console, tmp_path, monkeypatch):
    numbers = count()
    monkeypatch.setattr(training, "identity", lambda *_: str(next(numbers)))
    with pytest.raises(training.CodeChangedError):
        run_study(declared(), tmp_path, registry, SharingExecutor(), console)
    status = study_status(tmp_path)
    assert (status["waiting"], status["failed"], status["running"]) == (4, [], [])


def test_what_a_folder_says_of_each_cell(registry, console, tmp_path):
    with pytest.raises(RunError, match=r"has no planned\.json"):
        study_status(tmp_path)
    run(declared(seeds=5), tmp_path, registry, console, break_in=["baseline, seed 1"])
    names = {
        label: name
        for stage in json.loads((tmp_path / "planned.json").read_text())
        for name, label in stage.items()
    }
    folder = tmp_path / "cells"

    def make(label, claim):
        (folder / names[label] / "cell.json").unlink()
        record = {
            "host": "node7",
            "process": 12,
            "machine": "another",
            "since": "noon",
            "step": 3,
            "steps": 6,
        }
        path = folder / f"{names[label]}.claim-1"
        path.write_text(json.dumps({**record, **claim}))
        return path

    make("baseline, seed 2", {})
    os.utime(make("baseline, seed 3", {}), (0, 0))
    make("baseline, seed 4", {"released": True})
    make("baseline, seed 5", {"failure": "no memory"})
    status = study_status(tmp_path)
    assert (status["planned"], status["done"], status["waiting"]) == (10, 5, 2)
    (running,), (lost,), (failed,) = (status[key] for key in ("running", "lost", "failed"))
    assert (running["cell"], running["host"], running["process"]) == ("baseline, seed 2", "node7", 12)
    assert (lost["cell"], failed["cell"]) == ("baseline, seed 3", "baseline, seed 5")
    text = status_text(status)
    assert "5 of 10 cells are done, 1 running, 1 failed, 1 lost, 2 waiting" in text
    assert "running: baseline, seed 2: 50% of 6 updates; node7, process 12, since noon" in text


@pytest.mark.parametrize("option", [("--workers", "4"), ("--executor", "ray")])
def test_a_worker_is_one_process(option, tmp_path):
    command = ["ablate", "dates", "--swap", "model.attention=[mha, mqa]", "--out", str(tmp_path / "s")]
    process = Forked(["-m", "plugformer", *command, "--worker", *option])
    assert option[0] in process.communicate()[1]
    assert process.returncode == 2
    assert not (tmp_path / "s").exists()


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="a signal of POSIX")
@pytest.mark.parametrize("number", ["SIGUSR1", "SIGTERM"])
def test_asked_to_stop_a_worker_saves_and_asks_to_be_started_again(number, tmp_path):
    longer = options("training.steps=100000", "training.evaluate_every=20")
    command = ["ablate", "dates", "--swap", "model.attention=[mha, gqa]", *longer, "--out", str(tmp_path)]
    process = Forked(["-m", "plugformer", *command, "--worker"])
    deadline = time.monotonic() + 600
    while not (saved := list(tmp_path.glob("cells/*/checkpoints/step-*"))) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(getattr(signal, number))
    messages = process.communicate()[1]
    assert process.returncode == AGAIN, messages
    status = study_status(tmp_path)
    assert (status["waiting"], status["done"], status["running"]) == (status["planned"], 0, [])
    assert "Checkpoint saved" in saved[0].parents[1].with_suffix(".log").read_text()
