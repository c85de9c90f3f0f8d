"""What heads over a whole sequence have in common: a linear map of its pooled hidden states."""

from typing import Annotated

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from plugformer.interfaces import Head, HeadContext, Level
from plugformer_plugins.head.pooling import POOLINGS, Hidden, Pooling, Real


class Pooled(Head):
    """Pools the real tokens and maps to the outputs.

    Args:
        model: Sizes of the model and number of outputs.
        pooling: How the hidden states of a sequence become one vector.
        dropout: Rate on that vector.
    """

    levels = frozenset({Level.SEQUENCE})

    def __init__(
        self,
        model: HeadContext,
        *,
        pooling: Pooling = "mean",
        dropout: Annotated[float, Field(ge=0, lt=1, description="Rate on that vector.")] = 0.0,
    ) -> None:
        super().__init__()
        self.label_smoothing = model.label_smoothing
        self.pool = POOLINGS[pooling]
        self.hidden: nn.Module = nn.Identity()  # of those that pass no hidden layer
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(model.width, model.outputs)

    def logits(self, hidden: Hidden, real: Real) -> Float[Tensor, "batch outputs"]:
        """Returns the outputs of each sequence."""
        logits: Tensor = self.output(self.dropout(self.hidden(self.pool(hidden, real))))
        return logits
