"""A run goes on where there are other devices or other processes: what cannot be the same is said."""

import json
import signal

import pytest
import torch
from torch import nn

from plugformer.errors import InterruptedRunError
from plugformer.hooks import hookimpl
from plugformer.runs.checkpoint import TrainingState, load_checkpoint, save_checkpoint
from plugformer.runs.store import load_tensors, save_tensors
from plugformer.training.train import resume


class FakeGenerator:
    """In place of `torch.cuda` or `torch.mps`: the generator of the device that a process computes on."""

    def __init__(self, monkeypatch, seed):
        self.generator = torch.Generator().manual_seed(seed)
        self.asked = []
        monkeypatch.setattr(torch, "get_device_module", lambda _: self)

    def get_rng_state(self, *device):
        self.asked += device
        return self.generator.get_state()

    def set_rng_state(self, state, *device):
        self.asked += device
        self.generator.set_state(state)

    def draw(self):
        return torch.rand(3, generator=self.generator).tolist()


def state(device):
    model = nn.Linear(2, 2)
    return TrainingState(model, torch.optim.AdamW(model.parameters()), device=torch.device(device))


@pytest.mark.parametrize(("before", "after"), [("cuda:3", "cuda:0"), ("mps", "mps")])
def test_a_state_belongs_to_the_device_of_the_process_whatever_its_number(
    monkeypatch, tmp_path, before, after
):
    saved = FakeGenerator(monkeypatch, seed=1)
    save_checkpoint(tmp_path, state(before), keep=1)
    expected = saved.draw()
    restored = FakeGenerator(monkeypatch, seed=2)
    assert load_checkpoint(tmp_path, state(after), pytest.fail)
    assert restored.draw() == expected
    numbered = before != "mps"  # a machine has one of those
    assert saved.asked[:1] == [torch.device(before)] * numbered
    assert restored.asked[-1:] == [torch.device(after)] * numbered


@pytest.mark.parametrize(("before", "after"), [("cuda:1", "mps"), ("cpu", "cuda")])
def test_a_device_of_another_type_draws_from_its_own_seed(monkeypatch, tmp_path, before, after):
    FakeGenerator(monkeypatch, seed=1)
    save_checkpoint(tmp_path, state(before), keep=1)
    common = torch.rand(3).tolist()
    notices, fake = [], FakeGenerator(monkeypatch, seed=2)
    assert load_checkpoint(tmp_path, state(after), notices.append)
    assert torch.rand(3).tolist() == common
    assert fake.draw() == FakeGenerator(monkeypatch, seed=2).draw()
    (notice,) = notices
    assert [torch.device(each).type in notice for each in (before, after)] == [True, True]


class StopAfter:
    def __init__(self, step):
        self.step = step

    @hookimpl
    def step_ended(self, update):
        if update.step == self.step:
            signal.raise_signal(signal.SIGINT)


def test_a_training_on_a_gpu_resumes_without_one(train_tiny, tmp_path):
    """Its checkpoint has two processes' states of GPUs, and the settings of an optimizer that was there."""
    out, notices = tmp_path / "run", []
    with pytest.raises(InterruptedRunError):
        train_tiny(out, observers=[StopAfter(3)])
    (checkpoint,) = (out / "checkpoints").iterdir()
    file = checkpoint / "training.safetensors"
    tensors, record = load_tensors(file), json.loads((checkpoint / "state.json").read_text())
    tensors["gpu"] = torch.arange(16, dtype=torch.uint8)
    save_tensors(tensors, file)
    ((name, generators), *_) = record["parts"]["mapping"]
    assert name == "generators"
    generators[0]["mapping"].append(["cuda", {"tensor": "gpu"}])
    generators.append(generators[0])
    (checkpoint / "state.json").write_text(json.dumps(record))
    assert resume(out, notify=notices.append).report.metrics
    assert any("from 2 on cuda to 1 on cpu" in notice for notice in notices)
