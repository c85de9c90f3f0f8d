"""Several processes train one model: real ones, on the CPU, that differ in nothing from a single one."""

import json

import pytest
import torch
from tests.forking import Forked
from tests.training.interrupted import Interrupter, assert_same_tensors
from tests.training.processes import (
    begun,
    checkpoint,
    differences,
    ends,
    interrupted_after,
    launched,
    lines,
    train_command,
    wait_for,
)

from plugformer.errors import InterruptedRunError
from plugformer.training.train import resume

EXPERTS = "model.feed_forward={name: moe, experts: 8}"  # of which some see no token of a batch
STILL = "model.dropout=0.0"
SMOOTH = (
    "training.optimizer={name: adamw, lr: 0.001, epsilon: 0.01}"  # else Adam makes steps of rounding errors
)


RETRIEVAL = (  # negatives are of the batch, answers of the split
    *("type={name: retrieval, inputs: [source, target]}", "model.architecture=encoder-only"),
    *("model.head=contrastive", "model.embeddings.shared=false", "evaluation.metrics=[mrr]"),
)


@pytest.mark.parametrize(("settings", "start"), [((EXPERTS,), begun), (RETRIEVAL, Forked)])
def test_two_processes_train_as_one(train_tiny, short_settings, tmp_path, settings, start):
    """Where each is started by itself, it has another seed of Python's hashes."""
    one, two = tmp_path / "one", tmp_path / "two"
    report = train_tiny(one, *settings, STILL, "training.batches_per_update=2")
    with launched(
        2, *train_command(short_settings(*settings, STILL), two, "--json"), start=start
    ) as processes:
        main, other = ends(processes)
    assert (main.status, other.status) == (0, 0), main.messages + other.messages
    assert differences(one, two) < 1e-6
    assert (one / "task.yaml").read_text() == (two / "task.yaml").read_text()
    assert "training.batches_per_update is 2 instead of 1" in main.messages
    spoken = [line for line in other.output.splitlines() if not line.startswith("[Gloo]")]  # PyTorch 2.8
    assert (spoken, other.messages) == ([], ""), "one process speaks"
    assert json.loads(main.output.splitlines()[-1])["metrics"] == report.as_json()["metrics"]
    for mine, yours in zip(lines(one), lines(two), strict=True):
        assert mine["event"] == yours["event"]
        assert mine["loss"] == pytest.approx(yours["loss"], abs=1e-6)


def test_the_end_of_one_ends_the_others(short_settings, tmp_path):
    out = tmp_path / "run"
    with launched(2, *train_command(short_settings("training.steps=100000"), out)) as processes:
        wait_for(out, 3)
        processes[1].kill()
        main, _ = ends(processes)
    assert main.status == 2
    assert "Error: process 0 of 2 has lost another process" in main.messages


MEETINGS = """
import sys
from pathlib import Path
import numpy as np
import torch
from plugformer.distributed import Processes
from plugformer.errors import ConfigurationError, DataError, RunError

if not torch.cuda.is_available():  # as with a build for GPUs, which most people install, on a machine without
    torch._C._accelerator_getAccelerator = lambda: torch.device("cuda")
group = Processes.join()
assert (group.count, group.main) == (2, group.index == 0)
assert list(group.share(range(5))) == [[0, 2, 4], [1, 3]][group.index]
assert group.total([1, group.index]).tolist() == [2, 1]
assert group.total(np.full((2, 3), group.index)).tolist() == [[1] * 3] * 2
assert group.gather("ab"[group.index]) == ["a", "b"]
assert group.on_main(lambda: group.index) == 0
place = Path(sys.argv[1])


def make():
    found = place.exists()
    place.touch()
    return found


assert group.first_on_each_machine(make) is not group.main


def error_of(action):
    try:
        action()
    except (Exception, SystemExit) as error:
        return repr(error)


def fail_in(index):
    with group.raise_everywhere():
        if group.index == index:
            raise DataError(f"bad row in {index}")


def refuse():
    raise ConfigurationError("no")


expected = ["DataError('bad row in 0')", "SystemExit(2)"]
assert error_of(lambda: fail_in(0)) == expected[group.index]
expected = ["RunError('process 1 of 2: bad row in 1')", "SystemExit(2)"]
assert error_of(lambda: fail_in(1)) == expected[group.index]
expected = ["ConfigurationError('no')", "SystemExit(2)"]
assert error_of(lambda: group.on_main(refuse)) == expected[group.index]
expected = ["DataError('all')", "SystemExit(2)"]
assert error_of(lambda: group.abort(DataError("all"))) == expected[group.index]
assert error_of(lambda: fail_in(None)) is None
"""


def test_what_processes_tell_each_other(tmp_path):
    with launched(2, "-c", MEETINGS, str(tmp_path / "made")) as processes:
        for process in ends(processes):
            assert process.status == 0, process.messages


@pytest.mark.long
def test_resumed_equals_uninterrupted(short_settings, tmp_path):
    """With dropout, whose draws differ between processes; the signal reaches only one of them."""
    settings = short_settings()
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    with launched(2, *train_command(settings, whole)) as processes:
        assert [each.status for each in ends(processes)] == [0, 0]
    with launched(2, *train_command(settings, parts, *interrupted_after(3, tmp_path))) as processes:
        main, other = ends(processes)
    assert (main.status, other.status) == (130, 130)
    assert "Interrupted at step" in main.messages
    assert other.messages == ""
    generators = checkpoint(parts)
    assert not torch.equal(generators["training/generators/0/cpu"], generators["training/generators/1/cpu"])
    with launched(2, "-m", "plugformer", "train", "--resume", "--out", str(parts)) as processes:
        assert [each.status for each in ends(processes)] == [0, 0]
    assert_same_tensors(whole, parts)


@pytest.mark.long
def test_another_number_of_processes_goes_on(train_tiny, tmp_path):
    """Three processes share the two batches of an update: one computes in vain."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train_tiny(whole, EXPERTS, STILL, SMOOTH, "training.batches_per_update=2")
    with pytest.raises(InterruptedRunError):
        settings = (EXPERTS, STILL, SMOOTH, "training.batches_per_update=2")
        train_tiny(parts, *settings, callbacks=[Interrupter(3)])
    with launched(3, "-m", "plugformer", "train", "--resume", "--out", str(parts)) as processes:
        main, *_ = ends(processes)
    assert main.status == 0, main.messages
    assert "processes change from 1 on cpu to 3 on cpu" in main.messages
    assert differences(whole, parts) < 1e-6
    resume(parts, notify=str)  # with one, which finds a finished run
    assert differences(whole, parts) < 1e-6
