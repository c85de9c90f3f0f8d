"""The focal loss: Lin et al. 2017, https://arxiv.org/abs/1708.02002."""

from typing import Annotated

from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from plugformer.interfaces import Head, HeadContext, HeadInput, Level


class Focal(Head):
    """Tags of tokens, learned above all from those that the model finds hard.

    The cross-entropy of a tag with the probability p counts (1 - p) to the power of gamma: equation 4. The
    probabilities are those of the softmax, so that perplexity can be measured.
    See https://arxiv.org/abs/1708.02002.

    Args:
        model: Sizes of the model and number of tags.
        gamma: 0 for the cross-entropy; the paper recommends 2.
    """

    levels = frozenset({Level.TOKEN})

    def __init__(self, model: HeadContext, *, gamma: Annotated[float, Field(ge=0, le=10)] = 2.0) -> None:
        super().__init__()
        self.gamma = gamma
        self.output = nn.Linear(model.width, model.outputs)

    def logits(
        self,
        hidden: Float[Tensor, "batch length width"],
        context: HeadInput,  # noqa: ARG002 (all are scored)
    ) -> Float[Tensor, "batch length outputs"]:
        """Returns the scores of every tag at every token."""
        logits: Tensor = self.output(hidden)
        return logits

    def losses(
        self, logits: Float[Tensor, "targets outputs"], targets: Int[Tensor, " targets"]
    ) -> Float[Tensor, " targets"]:
        """Returns the weighted cross-entropy of each tag."""
        plain = super().losses(logits, targets)
        return (1 - (-plain).exp()) ** self.gamma * plain
