"""What is measured side by side: name, model and loss of each system."""

from hand_written import HandWritten
from peers import (
    Ids,
    System,
    TorchTransformer,
    marian,
    marian_loss,
    plugformer,
    plugformer_loss,
    torch_loss,
    x_transformers,
    x_transformers_loss,
)
from torch import Tensor, nn


def own_loss(model: nn.Module, source: Ids, target: Ids) -> Tensor:
    """Returns the loss of a model that computes it by itself."""
    loss: Tensor = model(source, target)
    return loss


SYSTEMS = {
    system.name: system
    for system in (
        System("plugformer", plugformer, plugformer_loss),
        System("the same by hand", HandWritten, own_loss),
        System("torch.nn.Transformer", TorchTransformer, torch_loss),
        System("Marian", marian, marian_loss),
        System("x-transformers", x_transformers, x_transformers_loss),
    )
}
