"""Heads that pool the hidden states of a sequence into one vector, wherever the padding is."""

from typing import Annotated, ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from plugformer.interfaces import HeadContext, HeadInput, Level, Likelihoods, OutputType
from plugformer_blocks import Pooling, pool
from plugformer_plugins.head.smoothing import LabelSmoothing, SmoothedHead

Hidden = Float[Tensor, "batch length width"]


class Pooled(SmoothedHead):
    """Pools the real tokens and maps to the outputs.

    Args:
        model: Sizes of the model and number of outputs.
        pooling: Which of them, or what of all of them.
        dropout: Rate on the pooled vector.
        label_smoothing: Share of each target that the training loss spreads over all outputs.
    """

    levels = frozenset({Level.SEQUENCE})
    parts: ClassVar[int] = 1

    def __init__(
        self,
        model: HeadContext,
        *,
        pooling: Pooling = "mean",
        dropout: Annotated[float, Field(ge=0, lt=1, description="Rate on that vector.")] = 0.0,
        label_smoothing: LabelSmoothing = 0.0,
    ) -> None:
        super().__init__(label_smoothing)
        self.pooling: Pooling = pooling
        self.hidden: nn.Module = nn.Identity()  # of those that pass no hidden layer
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(self.parts * model.width, model.outputs)

    def pooled(self, hidden: Hidden, context: HeadInput) -> Float[Tensor, "batch features"]:
        """Returns the vector of each sequence: `parts` times as wide as the model."""
        return pool(hidden, context.real, self.pooling)

    def logits(self, hidden: Hidden, context: HeadInput) -> Float[Tensor, "batch outputs"]:
        """Returns the outputs of each sequence."""
        logits: Tensor = self.output(self.dropout(self.hidden(self.pooled(hidden, context))))
        return logits


class Classifier(Pooled):
    """One label for a sequence, from its pooled hidden states.

    Pools the real tokens, optionally passes a hidden layer, and maps to the labels.

    With `pooling: first` and a hidden tanh layer as wide as the model this is BERT's classifier: Devlin et
    al. 2019, section 4.1, https://arxiv.org/abs/1810.04805.

    Args:
        model: Sizes of the model and number of labels. The embedding is never shared.
        hidden: Width of a hidden layer between pooling and output; None for none.
        activation: Activation of the hidden layer.
        dropout: Rate on the input of the output layer.
        label_smoothing: Share of each target that the training loss spreads over all labels.
    """

    def __init__(
        self,
        model: HeadContext,
        *,
        pooling: Pooling = "mean",
        hidden: Annotated[int | None, Field(ge=1, le=32_768)] = None,
        activation: Literal["relu", "tanh"] = "tanh",
        dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
        label_smoothing: LabelSmoothing = 0.0,
    ) -> None:
        super().__init__(model, pooling=pooling, dropout=dropout, label_smoothing=label_smoothing)
        if hidden is not None:
            function = nn.ReLU() if activation == "relu" else nn.Tanh()
            self.hidden = nn.Sequential(nn.Linear(self.parts * model.width, hidden), function)
            self.output = nn.Linear(hidden, model.outputs)


class MultiLabelClassifier(Pooled):
    """A binary decision for each label of a sequence; binary cross-entropy.

    In training targets are smoothed towards one half.
    See https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html.
    """

    output_types = frozenset({OutputType.LABELS})

    def losses(
        self, logits: Float[Tensor, "batch outputs"], targets: Float[Tensor, "batch outputs"]
    ) -> Float[Tensor, " batch"]:
        """Returns the cross-entropies of each sequence's labels, added up."""
        smoothed = targets * (1 - self.smoothing) + self.smoothing / 2
        return functional.binary_cross_entropy_with_logits(logits, smoothed, reduction="none").sum(dim=-1)

    def likelihoods(
        self, hidden: Hidden, targets: Float[Tensor, "batch outputs"], context: HeadInput
    ) -> Likelihoods:
        """Returns the joint likelihood of each sequence's labels, and whether all are right."""
        logits = self.logits(hidden, context).float()
        losses = self.losses(logits, targets.float())
        right = ((logits >= 0) == (targets > 0.5)).all(dim=-1).long()
        return Likelihoods(context.weighted(losses), torch.ones_like(right), -losses, right)


class Regressor(Pooled):
    """A number for a sequence, from its pooled hidden states; squared error.

    A linear map of the pooled hidden states, and the squared error.
    See https://arxiv.org/abs/1810.04805.

    Args:
        model: Sizes of the model; there is one output.
        pooling: Which of the hidden states, or what of all of them.
        dropout: Rate on the pooled vector.
    """

    output_types = frozenset({OutputType.NUMBER})
    probabilities = False

    def __init__(
        self,
        model: HeadContext,
        *,
        pooling: Pooling = "mean",
        dropout: Annotated[float, Field(ge=0, lt=1, description="Rate on that vector.")] = 0.0,
    ) -> None:
        super().__init__(model, pooling=pooling, dropout=dropout)

    def losses(
        self, logits: Float[Tensor, "batch outputs"], targets: Float[Tensor, " batch"]
    ) -> Float[Tensor, " batch"]:
        """Returns the squared error of each sequence's number."""
        return (logits[:, 0] - targets).square()
