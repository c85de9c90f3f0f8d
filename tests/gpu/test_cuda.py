"""What a CUDA GPU alone shows: its kernels learn, answer and resume as the CPU does, in every number format.

Skipped elsewhere, where `tests/model/test_one_device.py` and `tests/apple.py` stand in for it.
"""

import copy
import os
import random
import subprocess
import sys
import warnings
from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from tests.batches import pairs
from tests.model.test_one_device import SOURCES, TARGETS, answers
from tests.runs.test_apple import TEXTS, WHOLE
from tests.training.interrupted import Interrupter, logged

from plugformer.errors import InterruptedRunError
from plugformer.hooks import hookimpl
from plugformer.interfaces.step_graph import StepGraph
from plugformer.runs.directory import RunDirectory
from plugformer.runs.loading import load
from plugformer.training.train import resume
from plugformer_plugins.decoding.sampling import Sampling
from plugformer_plugins.optimizer.muon import Muon

GPU = torch.device("cuda")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


def learned(model, batch):
    """Returns a batch's loss and the gradients of all parameters."""
    model.train()
    loss = model(batch)
    loss.total.backward()
    named = model.named_parameters()
    return loss.total.detach(), {name: each.grad for name, each in named if each.grad is not None}


def assert_learns_as_on_the_cpu(model, batch):
    there = copy.deepcopy(model).to(GPU)
    loss, gradients = learned(model, batch)
    found, theirs = learned(there, batch.to(GPU))
    assert {each.device.type for each in theirs.values()} == {GPU.type}
    torch.testing.assert_close(found.cpu(), loss, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        {name: each.cpu() for name, each in theirs.items()}, gradients, rtol=1e-3, atol=1e-4
    )


def test_every_part_learns_as_on_the_cpu(tiny_model, any_parts):
    model = tiny_model(*(each for each in any_parts if each.startswith("model.")))
    assert_learns_as_on_the_cpu(model, pairs(SOURCES, TARGETS))


def test_a_loss_in_pieces_is_that_of_the_cpu(tiny_model):
    model = tiny_model("model.head={name: language_model, label_smoothing: 0.1, logits_memory: 1.0e-9}")
    assert_learns_as_on_the_cpu(model, pairs(SOURCES, TARGETS))


def test_muon_moves_matrices_nearly_as_on_the_cpu():
    """In bfloat16, a direction has two or three right digits."""
    starts, gradients = torch.randn(2, 3, 16, 32).unbind()
    moved = {}
    for device in ("cpu", "cuda"):
        named = [(f"{n}.weight", torch.nn.Parameter(start.to(device))) for n, start in enumerate(starts)]
        built = Muon(lr=1.0, weight_decay=0.0).build(named)
        for (_, parameter), gradient in zip(named, gradients, strict=True):
            parameter.grad = gradient.to(device)
        built.step()
        moved[device] = torch.stack([parameter.detach().cpu() for _, parameter in named]) - starts
    torch.testing.assert_close(moved["cuda"], moved["cpu"], rtol=0.05, atol=0.04)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_every_attention_learns_in_16_bits(tiny_model, any_attention, any_position, dtype):
    settings = (f"model.attention={any_attention}", f"model.position={any_position}", "model.layers=2")
    model = tiny_model(*settings).to(GPU)
    batch = pairs(SOURCES, TARGETS).to(GPU)
    expected, exact = learned(model, batch)
    exact = {name: each.clone() for name, each in exact.items()}
    model.zero_grad()
    with torch.autocast("cuda", dtype):
        found, gradients = learned(model, batch)
    torch.testing.assert_close(found.float(), expected, rtol=0.02, atol=0.02)
    assert gradients.keys() == exact.keys()
    assert all(each.isfinite().all() for each in gradients.values())


@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_every_attention_writes_as_on_the_cpu(tiny_model, registry, any_attention, any_position, search):
    model = tiny_model(f"model.attention={any_attention}", f"model.position={any_position}").eval()
    there = copy.deepcopy(model).to(GPU)
    with torch.no_grad():
        assert answers(there, registry, search, GPU) == answers(model, registry, search, "cpu")


def test_a_run_of_the_gpu_says_so(trained):
    environment = RunDirectory(trained.directory).read_lockfile()["environment"]
    assert environment["device"] == torch.cuda.get_device_name()
    assert load(trained.directory).device.type == GPU.type


@pytest.mark.parametrize("search", ["greedy", "beam"])
@pytest.mark.parametrize("position", ["rope", "alibi", "learned", "t5"])
def test_steps_of_decoding_are_replayed(tiny_model, registry, search, position, monkeypatch):
    monkeypatch.setattr("plugformer.interfaces.decoding.GRAPHS", True)
    calls, replay = Counter(), torch.cuda.CUDAGraph.replay
    monkeypatch.setattr(
        torch.cuda.CUDAGraph, "replay", lambda graph: (calls.update(["replay"]), replay(graph))[1]
    )
    with torch.no_grad():
        answers(tiny_model(f"model.position={position}").eval().to(GPU), registry, search, GPU)
    assert calls["replay"] > 2


def test_sampled_tokens_are_not_waited_for():
    sampling, scores = Sampling(), torch.zeros(3, 5, device=GPU)
    sampling._streams, sampling.live = [random.Random(seed) for seed in range(3)], [0, 1, 2]  # noqa: S311
    session = SimpleNamespace(top=lambda _: (scores, torch.arange(5, device=GPU).expand(3, 5)))
    with StepGraph.without_waits():
        sampling.choose(session)


@pytest.mark.parametrize("decoding", ["greedy", "sampling", "beam"])
def test_a_run_answers_as_on_the_cpu(trained, decoding):
    mine, yours = (
        load(trained.directory, overrides=[f"decoding.name={decoding}"], device=device).predict(TEXTS)
        for device in ("cuda:0", "cpu")
    )
    assert [each.output for each in mine] == [each.output for each in yours]
    assert [each.score for each in mine] == pytest.approx([each.score for each in yours], abs=1e-3)


def test_a_run_is_evaluated_as_on_the_cpu(trained):
    mine, yours = (
        load(trained.directory, overrides=[WHOLE], device=device).evaluate("validation")
        for device in ("cuda", "cpu")
    )
    for name, score in mine.metrics.items():
        assert score["value"] == pytest.approx(yours.metrics[name]["value"], rel=1e-3)


def test_a_run_checks_itself(trained):
    found = load(trained.directory).check_itself().comparisons
    assert [each.name for each in found if not each.passed] == []
    assert len(found) >= 4


def losses(directory):
    return [each["loss"] for each in logged(directory, "training")]


def test_it_trains_as_the_cpu_does(train_tiny, tmp_path):
    for device in ("cpu", "cuda"):
        train_tiny(tmp_path / device, "model.dropout=0.0", device=device)
    assert losses(tmp_path / "cuda") == pytest.approx(losses(tmp_path / "cpu"), rel=1e-3)


@pytest.mark.parametrize(("first", "second"), [("cpu", "cuda"), ("cuda", "cpu")])
def test_a_training_goes_on_where_it_has_another_device(train_tiny, tmp_path, first, second):
    with pytest.raises(InterruptedRunError):
        train_tiny(tmp_path / "run", "model.dropout=0.0", device=first, callbacks=[Interrupter(5)])
    resume(tmp_path / "run", device=second, notify=str)
    train_tiny(tmp_path / "whole", "model.dropout=0.0", device=first)
    assert losses(tmp_path / "run") == pytest.approx(losses(tmp_path / "whole"), rel=1e-3)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_it_trains_and_resumes_in_16_bits(train_tiny, tmp_path, precision):
    """That of float16 has a scaler, which is saved as well."""
    setting = f"training.precision={precision}"
    train_tiny(tmp_path / "whole", setting)
    with pytest.raises(InterruptedRunError):
        train_tiny(tmp_path / "run", setting, callbacks=[Interrupter(5)])
    resume(tmp_path / "run", notify=str)
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")
    assert losses(tmp_path / "run")[-1] < losses(tmp_path / "run")[0]


def test_it_trains_compiled(train_tiny, short_settings, tmp_path):
    """In a process of its own, where no annotation is checked: the compiler would look into the checks."""
    settings = ("model.layers=2", "model.dropout=0.0", "training.steps=4")
    given = [f"--set={each}" for each in short_settings(*settings, "training.compile=true")]
    command = [sys.executable, "-m", "plugformer", "train", "dates", "--out", tmp_path / "compiled", *given]
    subprocess.run(command, env={**os.environ, "JAXTYPING_DISABLE": "1"}, check=True, capture_output=True)
    train_tiny(tmp_path / "plain", *settings)
    assert losses(tmp_path / "compiled") == pytest.approx(losses(tmp_path / "plain"), rel=1e-3)


class Waits:
    """Counts where PyTorch says that an operation waits for the GPU, from one update to the next."""

    def __init__(self):
        self.counts = Counter()
        self._caught = None

    @hookimpl
    def step_ended(self, run, update):
        if self._caught is not None:
            torch.cuda.set_sync_debug_mode("default")
            self._caught.__exit__(None, None, None)
            self.counts[update.step] = sum("synchronizing" in str(each.message) for each in self._seen)
        self._caught = None
        if update.step < run.steps:
            self._caught = warnings.catch_warnings(record=True)
            self._seen = self._caught.__enter__()
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")


@pytest.mark.parametrize("settings", [(), ("training.precision=bf16",), ("training.batches_per_update=2",)])
def test_an_update_that_is_not_logged_waits_for_nothing(train_tiny, tmp_path, settings):
    """From the third batch on: the second one waited once, with PyTorch 2.11."""
    few = ("training.log_every=3", "training.evaluate_every=100", "training.steps=10", "model.layers=2")
    waits = Waits()
    train_tiny(tmp_path / "run", *few, *settings, callbacks=[waits])
    assert [waits.counts[step] for step in range(4, 10)] == [0, 0, 2, 0, 0, 2]


def test_the_processor_is_chosen_although_there_is_a_gpu(train_tiny, tmp_path):
    train_tiny(tmp_path / "run", device="cpu")
    assert RunDirectory(tmp_path / "run").read_lockfile()["environment"]["device"] == "cpu"
