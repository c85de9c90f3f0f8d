"""Heads: from the last hidden states to predictions and their loss."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional

from plugformer.interfaces.level import Level
from plugformer.interfaces.prediction import Answer

_POSITIONS = 1024


class Likelihoods(NamedTuple):
    """How probable the right answers to a batch are, example by example.

    Attributes:
        log_probabilities: Natural logarithm of the probability of all of an example's targets together; of
            targets without probabilities, such as numbers, the negative of their summed loss.
        targets: Number of targets.
        correct: How many of them are the most probable output; None where nothing is right or wrong, as of
            numbers.
    """

    log_probabilities: Float[Tensor, " batch"]
    targets: Int[Tensor, " batch"]
    correct: Int[Tensor, " batch"] | None


class Best(NamedTuple):
    """The most probable outputs.

    Attributes:
        outputs: Their numbers; whatever where nothing is to be predicted.
        log_probabilities: Natural logarithm of the probability of all of an example's outputs together.
    """

    outputs: Int[Tensor, " batch *length"]
    log_probabilities: Float[Tensor, " batch"]


class Head(nn.Module, ABC):
    """What a model predicts, and how wrong it is.

    A component is constructed as `SomeHead(model, **options)` with a `HeadContext` and its own options.

    Attributes:
        levels: What it can predict from: one output for each position (targets of shape (batch, length)), or
            one for the whole sequence (targets of shape (batch,) or (batch, outputs)).
        answer_types: Answers that its outputs can stand for; by default one of several outputs each.
        check_targets: Targets of some examples, for `plugformer check`; only for targets of a whole sequence
            that are neither the number of an output, nor as of labels or of a number.
    """

    levels: ClassVar[frozenset[Level]]
    answer_types: ClassVar[frozenset[str]] = frozenset(Answer) - {Answer.LABELS, Answer.NUMBER}
    check_targets: ClassVar[Sequence[Sequence[float]]] = ()

    @abstractmethod
    def logits(
        self, hidden: Float[Tensor, "batch length width"], real: Bool[Tensor, "batch length"]
    ) -> Float[Tensor, "batch *length outputs"]:
        """Returns unnormalised scores; `real` says which positions count."""

    @abstractmethod
    def loss(
        self,
        hidden: Float[Tensor, "batch length width"],
        targets: Shaped[Tensor, " batch *length"],
        real: Bool[Tensor, "batch length"],
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Returns the summed loss over all real targets, and their number.

        Sums and counts add up over chunks, micro-batches and processes. In training mode the loss is smoothed
        by `HeadContext.label_smoothing`; in evaluation mode it is the plain cross-entropy in nats, so that
        its mean is the logarithm of the perplexity.
        """

    def likelihoods(
        self,
        hidden: Float[Tensor, "batch length width"],
        targets: Shaped[Tensor, " batch *length"],
        real: Bool[Tensor, "batch length"],
    ) -> Likelihoods:
        """Returns how probable each example's targets are; by default each by itself, by its logits."""
        if targets.dim() < real.dim():
            found = _likelihoods(self.logits(hidden, real), targets)
            return Likelihoods(found[0], torch.ones_like(targets), found[1])
        log_probabilities = hidden.new_zeros(real.shape, dtype=torch.float32)
        correct = torch.zeros_like(targets)
        # Scores over a whole vocabulary are large: real positions alone, and only so many at a time.
        for part in real.nonzero().split(_POSITIONS):
            at = tuple(part.T)
            logits = self.logits(hidden[at][None], real[at][None])[0]
            log_probabilities[at], correct[at] = _likelihoods(logits, targets[at])
        return Likelihoods(log_probabilities.sum(dim=1), real.sum(dim=1), correct.sum(dim=1))

    def best(self, hidden: Float[Tensor, "batch length width"], real: Bool[Tensor, "batch length"]) -> Best:
        """Returns the most probable outputs; by default each by itself, by its logits."""
        scores, outputs = self.logits(hidden, real).float().log_softmax(dim=-1).max(dim=-1)
        return Best(outputs, scores if scores.dim() == 1 else scores.masked_fill(~real, 0.0).sum(dim=1))


def _likelihoods(
    logits: Float[Tensor, "targets outputs"], targets: Int[Tensor, " targets"]
) -> tuple[Float[Tensor, " targets"], Int[Tensor, " targets"]]:
    """Returns each target's log-probability, and 1 where it is the most probable output."""
    losses = functional.cross_entropy(logits.float(), targets, reduction="none")
    return -losses, (logits.argmax(dim=-1) == targets).long()
