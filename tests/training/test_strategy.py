"""How processes hold the model: what they exchange, and when they cannot."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch
from tests.batches import pairs
from tests.model.test_one_device import SOURCES, TARGETS
from torch import nn

from plugformer.configuration.task import TrainingSettings
from plugformer.errors import ConfigurationError
from plugformer.training import strategy as module
from plugformer.training.strategy import TrainingStrategy


class Alone(nn.Module):
    """Wraps a model as DistributedDataParallel does, and exchanges nothing."""

    def __init__(self, model, device_ids):
        super().__init__()
        self.module = model

    def forward(self, *arguments, **keywords):
        return self.module(*arguments, **keywords)

    @contextmanager
    def no_sync(self):
        yield


@pytest.fixture
def wrapped(tiny_model, monkeypatch):
    """Makes a strategy whose model is in a wrapper, as with several processes."""
    monkeypatch.setattr(module, "DistributedDataParallel", Alone)

    def made(*settings, model=None, count=2):
        processes = SimpleNamespace(count=count, device=torch.device("cpu"))
        return TrainingStrategy(model or tiny_model(*settings), TrainingSettings(), processes)

    return made


def learn(strategy, *, last=True):
    with strategy.exchanging(last=last):
        loss = strategy.loss(pairs(SOURCES, TARGETS))
        (loss.total + loss.auxiliary).backward()


def test_the_loss_depends_on_every_parameter_of_what_is_built_in(wrapped, any_parts):
    learn(wrapped(*(each for each in any_parts if each.startswith("model."))))


def test_a_parameter_that_is_not_used_is_named(wrapped, tiny_model):
    model = tiny_model()
    spare = nn.Parameter(torch.zeros(2))
    model.encoder.register_parameter("spare", spare)
    strategy = wrapped(model=model)
    learn(strategy, last=False)  # a later batch may use it
    with pytest.raises(ConfigurationError, match=r"encoder\.spare"):
        learn(strategy)
    spare.requires_grad_(False)
    learn(strategy)
    spare.requires_grad_(True)
    learn(wrapped(model=model, count=1))  # one process exchanges nothing


def test_an_update_that_is_left_out_leaves_the_scaler_ready_for_the_next(wrapped):
    strategy = wrapped(count=1)
    strategy.scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    optimizer = torch.optim.SGD(strategy.trained.parameters(), lr=0.1)
    for _ in range(2):
        strategy.backward(strategy.loss(pairs(SOURCES, TARGETS)).total * torch.inf)
        strategy.unscale(optimizer)
        strategy.skip_step()
        optimizer.zero_grad()
    assert strategy.scaler.get_scale() == 2.0
