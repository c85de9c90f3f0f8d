"""How processes hold the model: what they exchange, and when they cannot."""

import pytest
import torch
from tests.batches import pairs
from tests.model.test_one_device import SOURCES, TARGETS
from torch import nn

from plugformer.configuration.task import TrainingSettings
from plugformer.errors import ConfigurationError
from plugformer.training.strategy import TrainingStrategy


@pytest.fixture
def wrapped(tiny_model):
    """Makes a strategy whose model is in a wrapper, as with several processes, and learns from a batch."""

    def made(*settings):
        strategy = TrainingStrategy(tiny_model(*settings), TrainingSettings())
        strategy.model = nn.Sequential(strategy.trained)
        return strategy

    return made


def learn(strategy, *, last=True):
    with strategy.exchanging(last=last):
        loss = strategy.loss(pairs(SOURCES, TARGETS))
        (loss.total + loss.auxiliary).backward()


def test_the_loss_depends_on_every_parameter_of_what_is_built_in(wrapped, any_parts):
    learn(wrapped(*(each for each in any_parts if each.startswith("model."))))


def test_a_parameter_that_is_not_used_is_named(wrapped):
    strategy = wrapped()
    strategy.trained.encoder.register_parameter("spare", nn.Parameter(torch.zeros(2)))
    learn(strategy, last=False)  # a later batch may use it
    with pytest.raises(ConfigurationError, match=r"encoder\.spare"):
        learn(strategy)
    strategy.trained.encoder.spare.requires_grad_(False)
    learn(strategy)
    strategy = wrapped()
    strategy.trained.encoder.register_parameter("spare", nn.Parameter(torch.zeros(2)))
    strategy.model = strategy.trained  # one process exchanges nothing
    learn(strategy)
