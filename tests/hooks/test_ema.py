"""An exponential moving average: its formula, and that it is what is evaluated and saved."""

import pytest
import torch
from tests.training.interrupted import logged
from torch import nn

from plugformer.callbacks import HookManager
from plugformer.hooks import hookimpl
from plugformer.runs.store import load_tensors
from plugformer_plugins.callback.ema import ExponentialMovingAverage


@pytest.mark.parametrize(("warm_up", "decays"), [(False, [0.5, 0.5]), (True, [2 / 11, 3 / 12])])
def test_the_formula(warm_up, decays):
    """The warm-up's decays after one and two updates, (1 + n) / (10 + n), are worked out by hand."""
    model, hook = nn.Linear(2, 1), ExponentialMovingAverage(decay=0.5, warm_up=warm_up)
    model.bias.requires_grad_(False)
    manager = HookManager([], pytest.fail, {"ema": hook})
    optimizer = torch.optim.SGD([model.weight], lr=1.0)
    average = model.weight.detach().clone()
    assert manager.ask("evaluated_parameters", run=None, model=model) is None
    for decay in decays:
        model.weight.grad = torch.ones(1, 2)
        manager.ask("optimizer_step", run=None, model=model, optimizer=optimizer, step=1)
        average = decay * average + (1 - decay) * model.weight.detach()
    found = manager.ask("evaluated_parameters", run=None, model=model)
    assert found.keys() == {"weight"}
    torch.testing.assert_close(found["weight"], average)


def test_it_goes_on_where_the_parameters_are():
    """Checkpoints are read into main memory; the device that has no numbers stands for a GPU."""
    model, hook = nn.Linear(2, 1, device="meta"), ExponentialMovingAverage(decay=0.5)
    manager = HookManager([], pytest.fail, {"ema": hook})
    hook.load_state_dict({"updates": 1, "average": {"weight": torch.ones(1, 2), "bias": torch.ones(1)}})
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    manager.ask("optimizer_step", run=None, model=model, optimizer=optimizer, step=2)
    assert {value.device.type for value in hook.average.values()} == {"meta"}


def test_the_average_is_evaluated_and_saved_and_training_goes_on_without_it(train_tiny, trained, tmp_path):
    seen = []

    class Watching:
        @hookimpl
        def evaluation_ended(self, run, evaluation):
            own = {name: value.detach().clone() for name, value in run.model.named_parameters()}
            seen.append((own, load_tensors(run.directory / "model.safetensors"), evaluation.best))

    out = tmp_path / "run"
    train_tiny(out, "training.callbacks=[{name: ema, decay: 0.9}]", callbacks=[Watching()])
    assert all(best for _, _, best in seen)
    for own, saved, _ in seen:
        assert not torch.equal(own["head.weight"], saved["head.weight"])
    step = "checkpoints/step-00000010"
    mine, plain = (load_tensors(run / step / "model.safetensors") for run in (out, trained.directory))
    assert all(torch.equal(mine[name], plain[name]) for name in plain), "what is trained is the same"
    kept = load_tensors(out / step / "training.safetensors")
    best = load_tensors(out / "model.safetensors")
    assert all(torch.equal(kept[f"training/callbacks/ema/average/{name}"], best[name]) for name in best)
    mine, plain = ([line["loss"] for line in logged(run, "validation")] for run in (out, trained.directory))
    assert mine != plain
