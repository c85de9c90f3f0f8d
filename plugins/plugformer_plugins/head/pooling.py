"""Heads that pool the hidden states of a sequence into one vector, wherever the padding is."""

from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from plugformer.interfaces import Head, HeadContext, Level, Likelihoods, OutputType
from plugformer_blocks import Pooling, pool

Hidden = Float[Tensor, "batch length width"]
Real = Bool[Tensor, "batch length"]
Loss = tuple[Float[Tensor, ""], Int[Tensor, ""]]


class Pooled(Head):
    """Pools the real tokens and maps to the outputs.

    Args:
        model: Sizes of the model and number of outputs.
        pooling: Which of them, or what of all of them.
        dropout: Rate on the pooled vector.
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
        self.pooling: Pooling = pooling
        self.hidden: nn.Module = nn.Identity()  # of those that pass no hidden layer
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(model.width, model.outputs)

    def logits(self, hidden: Hidden, real: Real) -> Float[Tensor, "batch outputs"]:
        """Returns the outputs of each sequence."""
        logits: Tensor = self.output(self.dropout(self.hidden(pool(hidden, real, self.pooling))))
        return logits


class Classifier(Pooled):
    """Pools the real tokens, optionally passes a hidden layer, and maps to the labels.

    With `pooling: first` and a hidden tanh layer as wide as the model this is BERT's classifier: Devlin et
    al. 2019, section 4.1, https://arxiv.org/abs/1810.04805.

    Args:
        model: Sizes of the model and number of labels. The embedding is never shared.
        hidden: Width of a hidden layer between pooling and output; None for none.
        activation: Activation of the hidden layer.
        dropout: Rate on the input of the output layer.
    """

    def __init__(
        self,
        model: HeadContext,
        *,
        pooling: Pooling = "mean",
        hidden: Annotated[int | None, Field(ge=1, le=32_768)] = None,
        activation: Literal["relu", "tanh"] = "tanh",
        dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
    ) -> None:
        super().__init__(model, pooling=pooling, dropout=dropout)
        if hidden is not None:
            function = nn.ReLU() if activation == "relu" else nn.Tanh()
            self.hidden = nn.Sequential(nn.Linear(model.width, hidden), function)
            self.output = nn.Linear(hidden, model.outputs)

    def loss(self, hidden: Hidden, targets: Int[Tensor, " batch"], real: Real) -> Loss:
        """Returns the cross-entropy summed over the sequences, and their number; smoothed in training."""
        smoothing = self.label_smoothing if self.training else 0.0
        loss = functional.cross_entropy(
            self.logits(hidden, real), targets, reduction="sum", label_smoothing=smoothing
        )
        return loss, targets.new_tensor(targets.numel())


class MultiLabelClassifier(Pooled):
    """A linear map of the pooled hidden states, and a binary cross-entropy for each label."""

    output_types = frozenset({OutputType.LABELS})

    def loss(self, hidden: Hidden, targets: Float[Tensor, "batch outputs"], real: Real) -> Loss:
        """Returns the cross-entropies summed over labels and sequences, and the number of sequences.

        In training mode targets are smoothed towards one half.
        """
        smoothing = self.label_smoothing if self.training else 0.0
        smoothed = targets * (1 - smoothing) + smoothing / 2
        logits = self.logits(hidden, real)
        loss = functional.binary_cross_entropy_with_logits(logits, smoothed, reduction="sum")
        return loss, torch.tensor(len(targets), device=targets.device)

    def likelihoods(self, hidden: Hidden, targets: Float[Tensor, "batch outputs"], real: Real) -> Likelihoods:
        """Returns the joint likelihood of each sequence's labels, and whether all are right."""
        logits = self.logits(hidden, real).float()
        losses = functional.binary_cross_entropy_with_logits(logits, targets.float(), reduction="none")
        right = ((logits >= 0) == (targets > 0.5)).all(dim=-1).long()
        losses = losses.sum(dim=-1)
        return Likelihoods(losses, torch.ones_like(right), -losses, right)


class Regressor(Pooled):
    """A linear map of the pooled hidden states, and the squared error."""

    output_types = frozenset({OutputType.NUMBER})
    probabilities = False

    def loss(self, hidden: Hidden, targets: Float[Tensor, " batch"], real: Real) -> Loss:
        """Returns the squared errors summed over the sequences, and their number."""
        errors = self.logits(hidden, real)[:, 0] - targets
        return errors.square().sum(), torch.tensor(len(targets), device=targets.device)

    def likelihoods(self, hidden: Hidden, targets: Float[Tensor, " batch"], real: Real) -> Likelihoods:
        """Returns the squared error of each sequence; no number is right or wrong."""
        errors = (self.logits(hidden, real)[:, 0] - targets).float()
        ones = torch.ones(len(targets), dtype=torch.int64, device=targets.device)
        return Likelihoods(errors.square(), ones, log_probabilities=None, correct=None)
