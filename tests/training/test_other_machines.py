"""A run goes on where there are other devices: what cannot be the same is said."""

import pytest
import torch
from torch import nn

from plugformer.runs.checkpoint import TrainingState, load_checkpoint, save_checkpoint


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


@pytest.mark.parametrize(
    ("before", "after"), [("cuda:3", "cuda:0"), ("mps", "mps"), ("cuda:1", "mps"), ("cpu", "cuda")]
)
def test_the_state_of_a_device_is_for_one_of_its_type(monkeypatch, tmp_path, before, after):
    """Whatever its number is; one of another type draws from its own seed, and a notice says so."""
    saved = FakeGenerator(monkeypatch, seed=1)
    save_checkpoint(tmp_path, state(before), keep=1)
    expected, common = saved.draw(), torch.rand(3).tolist()
    notices, restored = [], FakeGenerator(monkeypatch, seed=2)
    assert load_checkpoint(tmp_path, state(after), notices.append)
    assert torch.rand(3).tolist() == common
    types = [torch.device(each).type for each in (before, after)]
    if types[0] == types[1]:
        assert (restored.draw(), notices) == (expected, [])
        numbered = types[0] != "mps"  # a machine has one of those
        assert [saved.asked[:1], restored.asked[-1:]] == [
            [torch.device(each)] * numbered for each in (before, after)
        ]
    else:
        assert restored.draw() == FakeGenerator(monkeypatch, seed=2).draw()
        assert [each in notices[0] for each in types] == [True, True]
