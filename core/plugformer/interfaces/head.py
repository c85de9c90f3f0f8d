"""Heads: from the last hidden states to predictions and their loss."""

from abc import ABC, abstractmethod
from typing import ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional

from plugformer.interfaces.batch import places_of, unpad
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

    A head with another loss overrides `losses`. A structured head predicts the targets of a sequence jointly,
    like a conditional random field (https://arxiv.org/abs/1603.01360). It overrides `loss`, `likelihoods` and
    `best`, which agree.

    Attributes:
        levels: The levels that it can predict from.
        output_types: The types of answers that its outputs can represent.
        depends_on: What the loss of a target may depend on: the target's own hidden state (all of them at
            level `sequence`), those of the example, as in a structured head, or those of the whole batch.
        probabilities: Whether it predicts probabilities of outputs, as perplexity needs them.
    """

    levels: ClassVar[frozenset[Level]]
    output_types: ClassVar[frozenset[str]] = frozenset(
        {OutputType.TEXT, OutputType.LABEL, OutputType.TAGS, OutputType.TOKENS}
    )
    depends_on: ClassVar[Literal["target", "example", "batch"]] = "target"
    probabilities: ClassVar[bool] = True

    @classmethod
    def check_case(
        cls,
        real: Bool[Tensor, "batch length"],  # noqa: ARG003 (a default)
    ) -> tuple[Shaped[Tensor, " batch *targets"], int] | None:
        """Returns targets and the number of outputs for `plugformer check`, if `output_types` are your own.

        None stands for classes, or for the labels or the number that `output_types` names.
        """
        return None

    @abstractmethod
    def logits(
        self, hidden: Float[Tensor, "batch length width"], real: Bool[Tensor, "batch length"]
    ) -> Float[Tensor, "batch *length outputs"]:
        """Returns unnormalized scores of each position by itself, or at level `sequence` (batch, outputs)."""

    def losses(
        self, logits: Float[Tensor, "targets outputs"], targets: Shaped[Tensor, " targets *outputs"]
    ) -> Float[Tensor, " targets"]:
        """Returns the loss of each target from its logits: by default cross-entropy, in nats.

        What only regularizes has no place here, except in training mode.
        """
        return functional.cross_entropy(logits, targets, reduction="none")

    @property
    def is_cross_entropy(self) -> bool:
        """Whether `losses` is not overridden: a head may then compute its `loss` in a faster way."""
        return type(self).losses is Head.losses

    def loss(
        self,
        hidden: Float[Tensor, "batch length width"],
        targets: Shaped[Tensor, " batch *length"],
        real: Bool[Tensor, "batch length"],
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Returns the sum of the losses of all real targets, by default of `losses`, and their number.

        Padding gets no gradient. In evaluation mode nothing is random, and nothing only regularizes.
        """
        if self._by_token:
            logits, targets = self._scored(hidden, targets, places_of(real))
        else:
            logits = self.logits(hidden, real)
        losses = self.losses(logits, targets)
        return losses.sum(), torch.tensor(len(losses), device=losses.device)

    def likelihoods(
        self,
        hidden: Float[Tensor, "batch length width"],
        targets: Shaped[Tensor, " batch *length"],
        real: Bool[Tensor, "batch length"],
    ) -> Likelihoods:
        """Returns the losses of each example's targets, which sum to `loss`, and their likelihoods.

        By default targets are independent: classes, or floats, which are neither probable nor correct.
        """
        if self._by_token:
            columns = hidden.new_zeros((3, real.numel()), dtype=torch.float32)
            # Scores of a vocabulary need much memory, so only some real positions are computed at a time.
            for places in places_of(real).split(_POSITIONS):
                columns[:, places] = self._measured(*self._scored(hidden, targets, places))
            columns, counts = columns.view(3, *real.shape).sum(dim=2), real.sum(dim=1)
        else:
            columns = self._measured(self.logits(hidden, real), targets)
            counts = torch.ones_like(columns[0], dtype=torch.int64)
        losses, log_probabilities, correct = columns
        return Likelihoods(
            losses,
            counts,
            log_probabilities if self.probabilities else None,
            None if targets.is_floating_point() else correct.long(),
        )

    def best(self, hidden: Float[Tensor, "batch length width"], real: Bool[Tensor, "batch length"]) -> Best:
        """Returns the most probable outputs, by default of independent targets."""
        scores, outputs = self.logits(hidden, real).float().log_softmax(dim=-1).max(dim=-1)
        return Best(outputs, scores if scores.dim() == 1 else scores.masked_fill(~real, 0.0).sum(dim=1))

    @property
    def _by_token(self) -> bool:
        """Whether there is a target at every real position, not one for each example."""
        return not self.levels.isdisjoint({Level.NEXT_TOKEN, Level.TOKEN})

    def _scored(
        self,
        hidden: Float[Tensor, "batch length width"],
        targets: Shaped[Tensor, "batch length"],
        places: Int[Tensor, " targets"],
    ) -> tuple[Float[Tensor, "targets outputs"], Shaped[Tensor, " targets"]]:
        """Returns logits and targets at some positions of the flattened batch."""
        real = torch.ones_like(places, dtype=torch.bool)
        logits = self.logits(unpad(hidden.flatten(0, 1), places)[None], real[None])[0]
        return logits, targets.flatten().index_select(0, places)

    def _measured(
        self, logits: Float[Tensor, "targets outputs"], targets: Shaped[Tensor, " targets *outputs"]
    ) -> Float[Tensor, "3 targets"]:
        """Returns each target's loss, its log-probability, and 1 if it is the best output."""
        logits = logits.float()
        losses = self.losses(logits, targets)
        log_probabilities = -losses
        if self.probabilities and not self.is_cross_entropy:
            log_probabilities = -functional.cross_entropy(logits, targets, reduction="none")
        correct = torch.zeros_like(losses)
        if not targets.is_floating_point():
            correct = (logits.argmax(dim=-1) == targets).float()
        return torch.stack([losses, log_probabilities, correct]).float()
