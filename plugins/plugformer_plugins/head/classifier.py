"""The classifier head: one label for a sequence, from its pooled hidden states."""

from typing import Annotated, Literal

from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from plugformer.interfaces import HeadContext
from plugformer_plugins.head.pooling import Hidden, Pooled, Pooling, Real

ACTIVATIONS: dict[Literal["relu", "tanh"], type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh}


class Classifier(Pooled):
    """Pools the real tokens, optionally passes a hidden layer, and maps to the labels.

    With `pooling: first` and a hidden tanh layer as wide as the model this is BERT's classifier: Devlin et
    al. 2019, section 4.1, https://arxiv.org/abs/1810.04805.

    Args:
        model: Sizes of the model and number of labels. The embedding is never shared.
        pooling: How the hidden states of a sequence become one vector.
        hidden: Width of a hidden layer between pooling and output; None for none.
        activation: Activation of the hidden layer.
        dropout: Rate on the input of the output layer.
    """

    def __init__(
        self,
        model: HeadContext,
        *,
        pooling: Pooling = "mean",
        hidden: Annotated[
            int | None, Field(ge=1, le=32_768, description="Width of a hidden layer; none if null.")
        ] = None,
        activation: Annotated[
            Literal["relu", "tanh"], Field(description="Activation of the hidden layer.")
        ] = "tanh",
        dropout: Annotated[float, Field(ge=0, lt=1, description="Rate on the output layer's input.")] = 0.0,
    ) -> None:
        super().__init__(model, pooling=pooling, dropout=dropout)
        if hidden is not None:
            self.hidden = nn.Sequential(nn.Linear(model.width, hidden), ACTIVATIONS[activation]())
            self.output = nn.Linear(hidden, model.outputs)

    def loss(
        self, hidden: Hidden, targets: Int[Tensor, " batch"], real: Real
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Returns the cross-entropy summed over the sequences, and their number; smoothed in training."""
        smoothing = self.label_smoothing if self.training else 0.0
        loss = functional.cross_entropy(
            self.logits(hidden, real), targets, reduction="sum", label_smoothing=smoothing
        )
        return loss, targets.new_tensor(targets.numel())
