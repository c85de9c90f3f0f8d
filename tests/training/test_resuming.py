"""A training that was interrupted and resumed ends exactly as one that was not; what is saved is usable."""

import shutil
import signal

import pytest
import torch
from tests.training.interrupted import Interrupter, Killer, assert_same_end, tensors

from plugformer.errors import InterruptedRunError, RunError
from plugformer.runs.loading import load
from plugformer.training.train import resume


@pytest.mark.parametrize(
    ("number", "steps"),
    [
        (signal.SIGINT, [5]),  # in the middle of an epoch, between evaluations
        (signal.SIGTERM, [1]),  # before there is any evaluation
        (signal.SIGINT, [8]),  # where an evaluation is due
        (signal.SIGINT, [10]),  # after the last update
        (signal.SIGINT, [1, 3, 4, 9]),  # again and again
    ],
)
def test_resumed_equals_uninterrupted(train_tiny, trained, tmp_path, number, steps):
    out, observers = tmp_path / "a run", [Interrupter(*steps, number=number)]
    resume_it = f"Resume with `plugformer train --resume --out '{out}'`"
    with pytest.raises(InterruptedRunError, match=f"Interrupted at step {steps[0]}/10.*{resume_it}"):
        train_tiny(out, callbacks=observers)
    for step in steps[1:]:
        with pytest.raises(InterruptedRunError, match=f"Interrupted at step {step}/10"):
            resume(out, callbacks=observers, notify=str)
        if step < 4:  # there has been no evaluation: the model has the last parameters
            model, checkpoint, _ = tensors(out).values()
            assert all(torch.equal(model[name], checkpoint[name]) for name in checkpoint)
    notices = []
    report = resume(out, notify=notices.append).report
    assert f"resumed after update {steps[-1]} of 10" in notices
    assert_same_end(out, trained.directory)
    assert report.metrics == trained.report.metrics


def test_the_seed_decides_dropout_too(train_tiny, trained, tmp_path):
    torch.manual_seed(123)
    train_tiny(tmp_path / "again")
    assert_same_end(tmp_path / "again", trained.directory)


@pytest.mark.parametrize("step", [3, 7])  # before the first checkpoint, and after it
def test_a_run_that_was_killed_goes_on_from_its_last_checkpoint(train_tiny, trained, tmp_path, step):
    """Killed: no handler runs; the log is ahead of the checkpoint and ends in half a line."""

    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train_tiny(out, callbacks=[Killer(step)])
    with (out / "metrics.jsonl").open("a") as file:
        file.write('{"event": "train')
    if step == 3:
        with pytest.raises(RunError, match=r"model\.safetensors is missing: the run has saved no model yet"):
            load(out)
    resume(out, notify=str)
    assert_same_end(out, trained.directory)


def test_a_finished_run_is_evaluated_again(run_copy, trained):
    report = resume(run_copy, notify=str).report
    assert report.metrics == trained.report.metrics
    assert_same_end(run_copy, trained.directory)


def test_the_log_goes_on_in_the_middle_of_a_line(train_tiny, tmp_path):
    """A line averages over updates before the interruption, too."""
    often = "training.log_every=4"
    train_tiny(tmp_path / "whole", often)
    with pytest.raises(InterruptedRunError):
        train_tiny(tmp_path / "run", often, callbacks=[Interrupter(6)])
    resume(tmp_path / "run", notify=str)
    assert_same_end(tmp_path / "run", tmp_path / "whole")


def test_what_a_killed_process_left_is_removed(run_copy, trained):
    """Half-written files, and checkpoints that it was about to remove."""
    kept = sorted((run_copy / "checkpoints").iterdir())
    (run_copy / "checkpoints" / ".step-00000012.0123abcd").mkdir()
    (run_copy / "checkpoints" / ".step-00000012.0123abcd" / "model.safetensors").write_bytes(b"half")
    (run_copy / ".model.safetensors.0123abcd").write_bytes(b"half")
    (run_copy / ".mine").write_text("kept")
    shutil.copytree(kept[0], run_copy / "checkpoints" / "step-00000002")
    resume(run_copy, notify=str)
    assert {path.name for path in run_copy.rglob(".*")} == {".mine", ".training.lock"}
    assert sorted((run_copy / "checkpoints").iterdir()) == kept
    assert_same_end(run_copy, trained.directory)
