"""Heads: from the last hidden states to predictions and their loss."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional

from plugformer.interfaces.batch import places_of
from plugformer.interfaces.prediction import Level, OutputType

_POSITIONS = 1024


class Likelihoods(NamedTuple):
    """How probable the right answers to a batch, or to a split, are, example by example.

    Attributes:
        log_probabilities: Natural logarithm of the probability of all of an example's targets together; of
            targets without probabilities, such as numbers, the negative of their summed loss. 0 of an example
            without targets.
        targets: Number of its targets.
        correct: How many of them equal the output of `Head.best`; None where nothing is right or wrong, as of
            numbers.
    """

    log_probabilities: Float[Tensor, " batch"]
    targets: Int[Tensor, " batch"]
    correct: Int[Tensor, " batch"] | None

    @property
    def loss(self) -> float:
        """Mean loss over all targets, in nats; of values in main memory."""
        return float(-self.log_probabilities.numpy().sum() / self.targets.numpy().sum())

    @property
    def token_accuracy(self) -> float | None:
        """Share of targets that are the most probable output; None where nothing is right or wrong."""
        if self.correct is None:
            return None
        return float(self.correct.numpy().sum() / self.targets.numpy().sum())


class Best(NamedTuple):
    """The most probable outputs.

    Attributes:
        outputs: Their numbers, from 0 to outputs - 1: (batch, length) by token, anything where nothing is
            predicted, or (batch,) of whole sequences.
        log_probabilities: Natural logarithm of the probability of all of an example's outputs together; 0 of
            an example without any.
    """

    outputs: Int[Tensor, " batch *length"]
    log_probabilities: Float[Tensor, " batch"]


class Head(nn.Module, ABC):
    """What a model predicts, and how wrong it is.

    A component is constructed as `SomeHead(model, **options)` with a `HeadContext` and its own options. Its
    methods are given `hidden`, the last hidden states, and `real`, which of them count:

    - At level `sequence` those of real tokens. Targets are (batch,) or, of several outputs each, (batch,
      outputs).
    - At level `next-token` those behind which a token follows that is to be predicted. Targets are (batch,
      length).
    - At level `token` those of tokens with a target. Targets are (batch, length), integers or float32, and
      IGNORED (-100), 0 or any other number where `real` is false. There are holes: where a word is several
      tokens, its first may be the only one with a target, and BEGIN and END have none. With padding on the
      left a row begins with several that do not count, and a row may have no target at all.

    A head predicts each target by itself, given the logits, or it is structured: it predicts the targets of a
    sequence together, as a conditional random field (https://arxiv.org/abs/1603.01360) does. A structured
    head overrides `likelihoods` and `best`, which have to agree with its `loss`; its `logits` are the scores
    of single targets, such as emissions, and their softmax is the probability of nothing.

    Attributes:
        levels: What it can predict from.
        output_types: Answers that its outputs can stand for; by default those where each target is one of
            several outputs.
        check_targets: Targets of some examples, for `plugformer check`; only for targets of a whole sequence
            that are neither the number of an output, nor as of labels or of a number.
    """

    levels: ClassVar[frozenset[Level]]
    output_types: ClassVar[frozenset[str]] = frozenset(
        {OutputType.TEXT, OutputType.LABEL, OutputType.TAGS, OutputType.TOKENS}
    )
    check_targets: ClassVar[Sequence[Sequence[float]]] = ()

    @abstractmethod
    def logits(
        self, hidden: Float[Tensor, "batch length width"], real: Bool[Tensor, "batch length"]
    ) -> Float[Tensor, "batch *length outputs"]:
        """Returns unnormalized scores: of every position, or at level `sequence` (batch, outputs).

        Those of a position depend on its own hidden state alone, whatever stands at positions that are not
        real.
        """

    @abstractmethod
    def loss(
        self,
        hidden: Float[Tensor, "batch length width"],
        targets: Shaped[Tensor, " batch *length"],
        real: Bool[Tensor, "batch length"],
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Returns the summed loss over all real targets, and their number.

        In nats: the negative logarithm of the targets' probability, the cross-entropy where each is predicted
        by itself and -log p(all targets of the sequence) of a structured head; of numbers, what grows with
        their error. It counts targets, of a structured head too. Sums and counts add up over chunks,
        micro-batches and processes; of tokens without a target both are 0. In training mode it is smoothed by
        `HeadContext.label_smoothing`, which a structured head may leave out; in evaluation mode nothing is,
        so that its mean over the targets is the logarithm of the perplexity.
        """

    def likelihoods(
        self,
        hidden: Float[Tensor, "batch length width"],
        targets: Shaped[Tensor, " batch *length"],
        real: Bool[Tensor, "batch length"],
    ) -> Likelihoods:
        """Returns the likelihoods of each example's targets; by default of each by itself, by its logits.

        The log-probabilities add up to the negative of `loss` in evaluation mode.
        """
        if targets.dim() < real.dim():
            found = _likelihoods(self.logits(hidden, real), targets)
            return Likelihoods(found[0], torch.ones_like(targets), found[1])
        log_probabilities = hidden.new_zeros(real.shape, dtype=torch.float32)
        correct = torch.zeros_like(targets)
        # Scores over a whole vocabulary are large: real positions alone, and only so many at a time.
        for part in places_of(real).split(_POSITIONS):
            at = (part // real.shape[1], part % real.shape[1])
            logits = self.logits(hidden[at][None], real[at][None])[0]
            log_probabilities[at], correct[at] = _likelihoods(logits, targets[at])
        return Likelihoods(log_probabilities.sum(dim=1), real.sum(dim=1), correct.sum(dim=1))

    def best(self, hidden: Float[Tensor, "batch length width"], real: Bool[Tensor, "batch length"]) -> Best:
        """Returns the most probable outputs; by default each by itself, by its logits.

        Of a structured head the most probable sequence, such as Viterbi's algorithm finds.
        """
        scores, outputs = self.logits(hidden, real).float().log_softmax(dim=-1).max(dim=-1)
        return Best(outputs, scores if scores.dim() == 1 else scores.masked_fill(~real, 0.0).sum(dim=1))


def _likelihoods(
    logits: Float[Tensor, "targets outputs"], targets: Int[Tensor, " targets"]
) -> tuple[Float[Tensor, " targets"], Int[Tensor, " targets"]]:
    """Returns each target's log-probability, and 1 where it is the most probable output."""
    losses = functional.cross_entropy(logits.float(), targets, reduction="none")
    return -losses, (logits.argmax(dim=-1) == targets).long()
