"""How a model is held while it is trained."""

import torch
from tests.batches import pairs
from tests.model.test_one_device import SOURCES, TARGETS

from plugformer.configuration.task import TrainingSettings
from plugformer.training.strategy import TrainingStrategy


def test_the_loss_depends_on_every_parameter_of_what_is_built_in(tiny_model, any_parts):
    """Several processes send gradients while others are computed: what is left out would never arrive."""
    model = tiny_model(*(each for each in any_parts if each.startswith("model."))).train()
    loss = model(pairs(SOURCES, TARGETS))
    (loss.total + loss.auxiliary).backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


def test_a_skipped_step_leaves_the_scaler_ready_for_the_next(tiny_model):
    strategy = TrainingStrategy(tiny_model(), TrainingSettings())
    strategy.scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    optimizer = torch.optim.SGD(strategy.trained.parameters(), lr=0.1)
    for _ in range(2):
        strategy.backward(strategy.loss(pairs(SOURCES, TARGETS)).total * torch.inf)
        strategy.unscale(optimizer)
        strategy.skip_step()
        optimizer.zero_grad()
    assert strategy.scaler.get_scale() == 2.0
