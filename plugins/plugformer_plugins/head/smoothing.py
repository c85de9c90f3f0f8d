"""Label smoothing, which several heads have in common."""

from typing import Annotated

from jaxtyping import Float, Int, Shaped
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from plugformer.interfaces import Head, HeadInput
from plugformer_blocks import IGNORED

LabelSmoothing = Annotated[
    float, Field(ge=0, lt=1, description="Share of each target that is spread over all outputs in training.")
]


class SmoothedHead(Head):
    """A head that smooths its targets in training: Szegedy et al. 2016, https://arxiv.org/abs/1512.00567.

    A subclass with other `losses` smooths in them, or leaves the option out of its constructor.
    """

    def __init__(self, label_smoothing: float = 0.0) -> None:
        super().__init__()
        self.label_smoothing = label_smoothing

    @property
    def has_other_losses(self) -> bool:
        """Whether a subclass overrides `losses`: its loss is no cross-entropy."""
        return type(self).losses is not Head.losses

    @property
    def smoothing(self) -> float:
        """The share of each target that is spread, in evaluation mode 0."""
        return self.label_smoothing if self.training else 0.0

    def loss(
        self,
        hidden: Float[Tensor, "batch length width"],
        targets: Shaped[Tensor, " batch *axes"],
        context: HeadInput,
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Returns the sum of the weighted losses of real targets, and their number; smoothed in training."""
        if self.has_other_losses:
            return super().loss(hidden, targets, context)
        logits = self.logits(hidden, context)
        if targets.dim() == 1:  # one of each sequence
            return self._cross_entropy(logits, targets, context), targets.new_tensor(targets.numel())
        counted = targets.masked_fill(~context.real, IGNORED)  # no shape depends on where targets are
        return self._cross_entropy(logits, counted, context), context.real.sum()

    def _cross_entropy(
        self,
        logits: Float[Tensor, "batch *length outputs"],
        targets: Int[Tensor, " batch *length"],
        context: HeadInput,
    ) -> Float[Tensor, ""]:
        losses = functional.cross_entropy(
            logits.flatten(0, -2),
            targets.flatten(),
            ignore_index=IGNORED,
            reduction="sum" if context.weights is None else "none",
            label_smoothing=self.smoothing,
        )
        if context.weights is None:
            return losses
        return context.weighted(losses.view(targets.shape)).sum()
