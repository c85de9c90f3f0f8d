"""The language-model head: the next token at every position."""

from typing import Annotated

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from plugformer.interfaces import HeadContext, HeadInput, Level, OutputType
from plugformer_blocks import IGNORED, LOGITS_MEMORY, linear_cross_entropy
from plugformer_plugins.head.smoothing import LabelSmoothing, SmoothedHead


class LanguageModel(SmoothedHead):
    """The next token at every position; may share the embedding's weight.

    A linear map to the vocabulary, and cross-entropy at the real targets.

    Tying: Using the Output Embedding to Improve Language Models, Press and Wolf 2017:
    https://arxiv.org/abs/1608.05859. The weight is (outputs, width).

    Args:
        model: Sizes of the model; the weight is `model.tied` where that is given.
        bias: Whether a learned bias, (outputs,), is added to the logits.
        label_smoothing: Share of each target that the training loss spreads over all outputs.
        logits_memory: Share of a GPU's free memory for a batch's logits and their gradients; where these need
            more, the loss is computed in pieces.
    """

    levels = frozenset({Level.NEXT_TOKEN, Level.TOKEN})
    output_types = frozenset({OutputType.TEXT, OutputType.TOKENS})
    bias: nn.Parameter | None

    def __init__(
        self,
        model: HeadContext,
        *,
        bias: bool = False,
        label_smoothing: LabelSmoothing = 0.0,
        logits_memory: Annotated[float, Field(gt=0, le=1)] = LOGITS_MEMORY,
    ) -> None:
        super().__init__(label_smoothing)
        self.logits_memory = logits_memory
        self.tied = model.tied is not None
        self.weight = (
            nn.Parameter(torch.empty(model.outputs, model.width)) if model.tied is None else model.tied
        )
        self.register_parameter("bias", nn.Parameter(torch.empty(model.outputs)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the weight as torch.nn.Linear does, unless it is the embedding's; sets the bias to zero."""
        if not self.tied:
            nn.init.kaiming_uniform_(self.weight, a=5**0.5)  # uniform on ±1 / sqrt(width)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def logits(
        self, hidden: Float[Tensor, "batch length width"], context: HeadInput
    ) -> Float[Tensor, "batch length outputs"]:
        """Returns the scores of every token of the vocabulary at every position."""
        return functional.linear(hidden, self.weight, self.bias)

    def loss(
        self,
        hidden: Float[Tensor, "batch length width"],
        targets: Int[Tensor, "batch length"],
        context: HeadInput,
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Returns the cross-entropy summed over the real targets, and their number; smoothed in training."""
        if self.has_other_losses or type(self).logits is not LanguageModel.logits:
            return super().loss(hidden, targets, context)
        real, weights = context.real, None
        if context.weights is not None:
            weights = context.weighted(torch.ones_like(real, dtype=torch.float32)).flatten()
        loss = linear_cross_entropy(
            hidden.flatten(0, 1),
            self.weight,
            targets.masked_fill(~real, IGNORED).flatten(),
            bias=self.bias,
            target_weights=weights,
            label_smoothing=self.smoothing,
            memory=self.logits_memory,
        )
        return loss, real.sum()
