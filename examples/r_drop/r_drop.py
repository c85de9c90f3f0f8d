"""R-Drop: two passes through dropout are to agree."""

from typing import Annotated

from pydantic import Field
from torch.nn import functional

from plugformer.hooks import hookimpl
from plugformer.interfaces import Callback
from plugformer.interfaces.batch import Batch
from plugformer.interfaces.model import Loss, Model


class RDrop(Callback):
    """Adds the divergence between two passes over a batch, which differ in dropout alone, to their mean loss.

    R-Drop: Regularized Dropout for Neural Networks, Liang et al. 2021, equation 4, halved:
    https://arxiv.org/abs/2106.14448.

    Args:
        weight: Of the divergence, alpha there.
    """

    def __init__(
        self, *, weight: Annotated[float, Field(ge=0, description="Of the divergence.")] = 1.0
    ) -> None:
        self.weight = weight

    @hookimpl
    def training_loss(self, model: Model, batch: Batch) -> Loss:
        """Returns the loss of two passes instead of that of one."""
        targets, real = model.targets(batch)
        passes = model.read(batch), model.read(batch)
        (first, count), (second, _) = (model.head.loss(hidden, targets, seen) for hidden, seen in passes)
        p, q = (model.head.logits(*each).float().log_softmax(-1) for each in passes)
        both = functional.kl_div(p, q, log_target=True, reduction="none") + functional.kl_div(
            q, p, log_target=True, reduction="none"
        )
        divergence = both.sum(-1)
        if divergence.dim() == real.dim():  # one prediction for each position
            divergence = divergence[real]
        total = (first + second) / 2 + self.weight * divergence.sum() / 4
        return Loss(total, count, total.new_zeros(()))
