"""The token classifier: a label for each token, from its hidden state."""

from typing import Annotated

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from plugformer.interfaces import HeadContext, HeadInput, Level
from plugformer_plugins.head.smoothing import LabelSmoothing, SmoothedHead


class TokenClassifier(SmoothedHead):
    """A label for each token, from its hidden state.

    A linear map of each token's hidden state: Devlin et al. 2019, section 5.3.

    https://arxiv.org/abs/1810.04805

    Args:
        model: Sizes of the model and number of labels.
        dropout: Rate on the hidden states.
        label_smoothing: Share of each target that the training loss spreads over all labels.
    """

    levels = frozenset({Level.TOKEN})

    def __init__(
        self,
        model: HeadContext,
        *,
        dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
        label_smoothing: LabelSmoothing = 0.0,
    ) -> None:
        super().__init__(label_smoothing)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(model.width, model.outputs)

    def logits(
        self, hidden: Float[Tensor, "batch length width"], context: HeadInput
    ) -> Float[Tensor, "batch length outputs"]:
        """Returns the scores of every label at every token."""
        logits: Tensor = self.output(self.dropout(hidden))
        return logits
