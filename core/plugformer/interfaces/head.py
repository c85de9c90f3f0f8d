"""Heads: from the last hidden states to predictions and their loss."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional

from plugformer.interfaces.batch import places_of
from plugformer.interfaces.prediction import Level, OutputType

_POSITIONS = 1024


class Likelihoods(NamedTuple):
    """The losses and likelihoods of the targets of examples; 0 for an example without targets.

    Attributes:
        losses: Sum of the losses of each example's targets.
        targets: Number of targets of each example.
        log_probabilities: Natural logarithm of the joint probability of each example's targets; None if the
            head has no `probabilities`.
        correct: How many of the targets equal the output of `Head.best`; None for numbers.
    """

    losses: Float[Tensor, " batch"]
    targets: Int[Tensor, " batch"]
    log_probabilities: Float[Tensor, " batch"] | None
    correct: Int[Tensor, " batch"] | None

    @property
    def loss(self) -> float:
        """Mean loss over all targets; the tensors must be on the CPU."""
        return float(self.losses.numpy().sum() / self.targets.numpy().sum())

    @property
    def token_accuracy(self) -> float | None:
        """Share of targets that are the best output; None for numbers."""
        if self.correct is None:
            return None
        return float(self.correct.numpy().sum() / self.targets.numpy().sum())


class Best(NamedTuple):
    """The most probable outputs.

    Attributes:
        outputs: Their numbers from 0: (batch, length), with any value at positions without a prediction, or
            (batch,) for whole sequences.
        log_probabilities: Natural logarithm of the joint probability of each example's outputs; 0 for none.
    """

    outputs: Int[Tensor, " batch *length"]
    log_probabilities: Float[Tensor, " batch"]


class Head(nn.Module, ABC):
    """Predictions from the last hidden states, and their loss.

    A component is constructed as `SomeHead(model, **options)` with a `HeadContext` and its own options. Its
    methods receive `hidden`, the last hidden states, and `real`, a mask of the states that count:

    - At level `sequence` the states of real tokens. Targets are (batch,) or (batch, outputs).
    - At level `next-token` the states from which a token is predicted. Targets are (batch, length).
    - At level `token` the states of tokens with a target. Targets are (batch, length), integers or float32,
      with any value where `real` is False. These positions may be anywhere, and a row may have no target.

    A structured head predicts the targets of a sequence jointly, like a conditional random field
    (https://arxiv.org/abs/1603.01360). It overrides `likelihoods` and `best`, which agree with its `loss`.

    Attributes:
        levels: The levels that it can predict from.
        output_types: The types of answers that its outputs can represent.
        depends_on: What the loss of a target may depend on: the target's own hidden state (all of them at
            level `sequence`), those of the example, as in a structured head, or those of the whole batch.
        probabilities: Whether it predicts probabilities of outputs, as perplexity needs them.
        check_targets: Targets of some examples for `plugformer check`; only for targets of whole sequences
            that are no class, no set of labels and no number.
    """

    levels: ClassVar[frozenset[Level]]
    output_types: ClassVar[frozenset[str]] = frozenset(
        {OutputType.TEXT, OutputType.LABEL, OutputType.TAGS, OutputType.TOKENS}
    )
    depends_on: ClassVar[Literal["target", "example", "batch"]] = "target"
    probabilities: ClassVar[bool] = True
    check_targets: ClassVar[Sequence[Sequence[float]]] = ()

    @abstractmethod
    def logits(
        self, hidden: Float[Tensor, "batch length width"], real: Bool[Tensor, "batch length"]
    ) -> Float[Tensor, "batch *length outputs"]:
        """Returns unnormalized scores of each position by itself, or at level `sequence` (batch, outputs)."""

    @abstractmethod
    def loss(
        self,
        hidden: Float[Tensor, "batch length width"],
        targets: Shaped[Tensor, " batch *length"],
        real: Bool[Tensor, "batch length"],
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Returns the sum of the losses of all real targets, and the number of these targets.

        The loss is the negative logarithm of the targets' probability, in nats; for numbers it grows with the
        error. In training mode `HeadContext.label_smoothing` applies; a structured head may ignore it.
        """

    def likelihoods(
        self,
        hidden: Float[Tensor, "batch length width"],
        targets: Shaped[Tensor, " batch *length"],
        real: Bool[Tensor, "batch length"],
    ) -> Likelihoods:
        """Returns the losses of each example's targets, which sum to `loss`, and their likelihoods.

        By default targets are independent classes.
        """
        if targets.dim() < real.dim():
            losses, correct = _losses(self.logits(hidden, real), targets)
            return Likelihoods(losses, torch.ones_like(targets), -losses, correct)
        losses = hidden.new_zeros(real.shape, dtype=torch.float32)
        correct = torch.zeros_like(targets)
        # Scores of a vocabulary need much memory, so only some real positions are computed at a time.
        for part in places_of(real).split(_POSITIONS):
            at = (part // real.shape[1], part % real.shape[1])
            logits = self.logits(hidden[at][None], real[at][None])[0]
            losses[at], correct[at] = _losses(logits, targets[at])
        sums = losses.sum(dim=1)
        return Likelihoods(sums, real.sum(dim=1), -sums, correct.sum(dim=1))

    def best(self, hidden: Float[Tensor, "batch length width"], real: Bool[Tensor, "batch length"]) -> Best:
        """Returns the most probable outputs, by default of independent targets."""
        scores, outputs = self.logits(hidden, real).float().log_softmax(dim=-1).max(dim=-1)
        return Best(outputs, scores if scores.dim() == 1 else scores.masked_fill(~real, 0.0).sum(dim=1))


def _losses(
    logits: Float[Tensor, "targets outputs"], targets: Int[Tensor, " targets"]
) -> tuple[Float[Tensor, " targets"], Int[Tensor, " targets"]]:
    """Returns each target's cross-entropy, and 1 if it is the most probable output."""
    losses = functional.cross_entropy(logits.float(), targets, reduction="none")
    return losses, (logits.argmax(dim=-1) == targets).long()
