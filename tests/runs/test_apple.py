"""Everything that a model does works on an Apple GPU, which has no float64: see `tests/apple.py`."""

import pytest
import torch
from tests.apple import MPS, apple_gpu

from plugformer.evaluation.report import ConsistencyCheck
from plugformer.runs import loading

TEXTS = ["May 1, 2001", "1/2/99", "Sunday, October 14, 2029"]
WHOLE = "evaluation.metrics=[exact_match, perplexity, token_accuracy]"


@pytest.fixture
def loaded(monkeypatch, trained):
    """Loads a run to the device."""
    monkeypatch.setattr(loading, "chosen_device", lambda name: MPS if name is None else torch.device(name))

    def load(*settings):
        return loading.load(trained.directory, overrides=settings)

    with apple_gpu():
        yield load


def test_the_device_is_like_an_apple_gpu():
    with apple_gpu():
        x = torch.ones(2, device=MPS)
        assert (x + 1).tolist() == [2.0, 2.0]
        assert (x + 1).device == MPS
        with pytest.raises(TypeError, match="float64"):
            x.double()
        with pytest.raises(TypeError, match="float64"):
            torch.zeros(2, dtype=torch.float64, device=MPS)
        with pytest.raises(RuntimeError, match="on the CPU"):
            x + torch.ones(2)


@pytest.mark.parametrize("decoding", ["sampling", "beam"])
def test_it_answers(loaded, trained, decoding):
    model = loaded(f"decoding.name={decoding}")
    assert model.device.type == MPS.type
    expected = loading.load(trained.directory, overrides=[f"decoding.name={decoding}"], device="cpu")
    for mine, yours in zip(model.predict(TEXTS), expected.predict(TEXTS), strict=True):
        assert mine.output == yours.output
        assert mine.score == pytest.approx(yours.score, abs=1e-4)


def test_it_is_evaluated(loaded, trained):
    report = loaded(WHOLE).evaluate("validation")
    expected = loading.load(trained.directory, overrides=[WHOLE], device="cpu").evaluate("validation")
    for name, score in report.metrics.items():
        assert score["value"] == pytest.approx(expected.metrics[name]["value"], rel=1e-4)


def test_it_computes_losses_and_gradients(loaded, trained):
    gradients = []
    for model in (loaded(), loading.load(trained.directory, device="cpu")):
        (batch,) = model.predictor().batches(model.read("validation")[0], range(3))
        loss = model.model.train()(batch)
        assert loss.total.device.type == model.device.type
        loss.total.backward()
        gradients.append([each.grad.cpu() for each in model.model.parameters() if each.grad is not None])
    assert len(gradients[0]) == len(gradients[1]) > 0


def test_its_self_check_passes(loaded):
    found: list[ConsistencyCheck] = loaded().check_itself().comparisons
    assert [(each.name, each.error) for each in found] == [(each.name, "") for each in found]
    assert all(each.passed for each in found)
    assert len(found) >= 4
