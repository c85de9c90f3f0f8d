"""How a model is held while it is trained."""

from tests.batches import pairs
from tests.model.test_one_device import SOURCES, TARGETS


def test_the_loss_depends_on_every_parameter_of_what_is_built_in(tiny_model, any_parts):
    """Several processes send gradients while others are computed: what is left out would never arrive."""
    model = tiny_model(*(each for each in any_parts if each.startswith("model."))).train()
    loss = model(pairs(SOURCES, TARGETS))
    (loss.total + loss.auxiliary).backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []
