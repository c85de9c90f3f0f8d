"""Heads: from the last hidden states to predictions and their loss."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional

from plugformer.errors import ConfigurationError
from plugformer.interfaces.batch import Batch, Tokens
from plugformer.interfaces.prediction import Level, OutputType

Hidden = Float[Tensor, "batch length width"]
Real = Bool[Tensor, "batch length"]
Logits = Float[Tensor, "targets outputs"]
Targets = Shaped[Tensor, " targets *axes"]
_POSITIONS = 1024


@dataclass(eq=False)
class HeadInput:
    """What a head sees besides the hidden states, row for row; of a beam's rows each has its own.

    Attributes:
        real: True for the hidden states that count.
        source: The tokens that the encoder has read, (batch, source), for heads that read them.
        memory: The encoder's output at these tokens, (batch, source, width), for heads that read it; at
            padding it is arbitrary.
        cross_attention: Weights of the decoder's last cross-attention, (batch, heads, length, source), for
            heads that read them; a step of decoding has those of its own tokens alone.
        weights: The weight of each example's targets, (batch,), or of each target; None for 1.
    """

    real: Real
    source: Tokens = Batch.source
    memory: Float[Tensor, "batch source width"] | None = None
    cross_attention: Float[Tensor, "batch heads length source"] | None = None
    weights: Float[Tensor, " batch *length"] | None = None

    def select(self, rows: Int[Tensor, " rows"]) -> "HeadInput":
        """Returns that of these rows, in this order."""
        optional = ("memory", "cross_attention", "weights")
        found = {name: value for name in optional if (value := getattr(self, name)) is not None}
        chosen = {name: value.index_select(0, rows) for name, value in found.items()}
        source = self.source.select(rows) if len(self.source.ids) else self.source
        return replace(self, real=self.real.index_select(0, rows), source=source, **chosen)

    def weighted(self, losses: Float[Tensor, " batch *length"]) -> Float[Tensor, " batch *length"]:
        """Returns the losses of targets, or of examples, times their weights.

        Raises:
            ConfigurationError: The targets of an example have weights of their own, but only one loss.
        """
        if self.weights is None:
            return losses
        if losses.dim() < self.weights.dim():
            raise ConfigurationError(
                f"each target has a weight of its own, {tuple(self.weights.shape)}, but the head has one "
                "loss for all of an example\nweigh whole examples, or choose another head"
            )
        if self.weights.dim() == 1:
            return losses * self.weights.view(-1, *[1] * (losses.dim() - 1))
        return losses * self.weights.masked_fill(~self.real, 0.0)


class Likelihoods(NamedTuple):
    """The losses and likelihoods of the targets of examples; 0 for an example without targets.

    Attributes:
        losses: Sum of the losses of each example's targets, times their weights.
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


class Head(nn.Module, ABC):
    """Predictions from the last hidden states, and their loss.

    A component is constructed as `SomeHead(model, **options)` with a `HeadContext` and its own options. Its
    methods receive `hidden`, the last hidden states, and `context`, whose mask `real` says which count:

    - At level `sequence` the states of real tokens. Targets are (batch,) or (batch, outputs); if examples
      have different numbers of them, as many as the most, the others ABSENT or NaN, which do not count.
    - At level `next-token` the states from which a token is predicted. Targets are (batch, length).
    - At level `token` the states of tokens with a target. Targets are (batch, length), integers or float32,
      with any value where `real` is False. These positions may be anywhere, and a row may have no target.
    - At level `vector` the vectors of an example's inputs, and targets as at level `sequence`. The score of a
      row that an example lacks is minus infinity, or very low, unless `probabilities` is False.

    A head that reads more of the context names it in `reads`, as a pointer-generator does, which copies
    tokens of the source (https://arxiv.org/abs/1704.04368). The context of others may lack it.

    A head with another loss overrides `losses`. A structured head predicts the targets of a sequence jointly,
    like a conditional random field (https://arxiv.org/abs/1603.01360). It overrides `loss`, `likelihoods` and
    `best`, which agree, and weighs losses by `HeadInput.weighted`.

    Attributes:
        levels: The levels that it can predict from.
        output_types: The types of answers that its outputs can represent.
        depends_on: What the loss of a target may depend on: the target's own hidden state (all of them at
            level `sequence`), those of the example, as in a structured head, or those of the whole batch.
        probabilities: Whether it predicts probabilities of outputs, as perplexity needs them. Without them
            answers have no score.
        reads: What it reads of its context: "source", the tokens that an encoder has read, "memory", its
            output, or "cross_attention". For the weights, the last layer computes attention openly.
    """

    levels: ClassVar[frozenset[Level]]
    output_types: ClassVar[frozenset[str]] = frozenset(
        {OutputType.TEXT, OutputType.LABEL, OutputType.TAGS, OutputType.TOKENS}
    )
    depends_on: ClassVar[Literal["target", "example", "batch"]] = "target"
    probabilities: ClassVar[bool] = True
    reads: ClassVar[frozenset[Literal["source", "memory", "cross_attention"]]] = frozenset()

    @classmethod
    def check_case(cls, real: Real) -> tuple[Targets, int] | None:  # noqa: ARG003 (a default)
        """Returns targets and the number of outputs for `plugformer check`; None for built-in types."""
        return None

    def forward(self, method: str, *arguments: Any) -> Any:
        """Calls `loss` or `logits`, as models do, so that torch's hooks see it; not to be overridden."""
        return getattr(self, method)(*arguments)

    @abstractmethod
    def logits(self, hidden: Hidden, context: HeadInput) -> Float[Tensor, "batch *length outputs"]:
        """Returns unnormalized scores of each position by itself, or at level `sequence` (batch, outputs).

        They have the format of `hidden`, such as bfloat16.
        """

    def vectors(self, hidden: Hidden) -> Float[Tensor, "batch rows size"]:
        """Returns the vectors of level `vector`; the product of two says how near their texts are."""
        return hidden

    def losses(self, logits: Logits, targets: Targets) -> Float[Tensor, " targets"]:
        """Returns the loss of each target from its logits, (targets, outputs): cross-entropy in nats."""
        return functional.cross_entropy(logits, targets, reduction="none")

    def loss(
        self, hidden: Hidden, targets: Targets, context: HeadInput
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Returns the sum of the weighted losses of real targets, by default of `losses`, and their number.

        Weights change the sum alone: a target with weight 0 still counts, and with weights whose mean is 1
        the mean loss stays. Padding gets no gradient. In evaluation mode nothing is random, and nothing only
        regularizes.
        """
        found = self.likelihoods(hidden, targets, context)
        return found.losses.sum(), found.targets.sum()

    def likelihoods(self, hidden: Hidden, targets: Targets, context: HeadInput) -> Likelihoods:
        """Returns the losses of each example's targets, which sum to `loss`, and their likelihoods.

        By default targets are independent: classes, or floats, which are neither probable nor correct.
        Weights multiply `losses` alone, neither `log_probabilities` nor `correct`.
        """
        real = context.real
        if self.levels.isdisjoint({Level.NEXT_TOKEN, Level.TOKEN}):
            losses, likely, correct = self._measured(self.logits(hidden, context), targets)
            losses, counts = context.weighted(losses), torch.ones_like(losses, dtype=torch.int64)
        else:
            columns = hidden.new_zeros((3, real.numel()), dtype=torch.float32)
            for places, logits in self._pieces(hidden, context):
                columns[:, places] = self._measured(logits, targets.flatten()[places])
            columns = columns.view(3, *real.shape)
            if context.weights is not None:
                columns[0] = context.weighted(columns[0])
            losses, likely, correct = columns.masked_fill(~real, 0.0).sum(dim=2)
            counts = real.sum(dim=1)
        known = None if targets.is_floating_point() else correct.long()
        return Likelihoods(losses, counts, likely if self.probabilities else None, known)

    def best(
        self, hidden: Hidden, context: HeadInput
    ) -> tuple[Int[Tensor, " batch *length"], Float[Tensor, " batch"]]:
        """Returns the most probable outputs, by default of independent targets, and their log-probability.

        Outputs are numbers from 0, with any value at positions without a prediction. The natural logarithm of
        the joint probability of each example's outputs is 0 for none.
        """
        scores, outputs = self.logits(hidden, context).float().log_softmax(dim=-1).max(dim=-1)
        whole = scores.dim() == 1
        return outputs, scores if whole else scores.masked_fill(~context.real, 0.0).sum(dim=1)

    def _pieces(self, hidden: Hidden, context: HeadInput) -> Iterator[tuple[Int[Tensor, " places"], Logits]]:
        """Yields places in the flattened batch and their logits: those of a vocabulary need much memory."""
        real = context.real
        if not self.reads:
            for places in _places(real).split(_POSITIONS):
                some = hidden.flatten(0, 1).index_select(0, places)[None]
                yield places, self.logits(some, HeadInput(real.flatten()[places][None], context.source))[0]
            return
        columns = torch.arange(real.shape[1], device=real.device)
        every = torch.arange(len(real), device=real.device)
        for rows in every.split(max(1, _POSITIONS // max(1, len(columns)))):
            logits = self.logits(hidden.index_select(0, rows), context.select(rows))
            yield (rows[:, None] * len(columns) + columns).flatten(), logits.flatten(0, 1)

    def _measured(self, logits: Logits, targets: Targets) -> Float[Tensor, "3 targets"]:
        """Returns each target's loss, its log-probability, and 1 if it is the best output."""
        losses = self.losses(logits.float(), targets)
        if targets.is_floating_point():
            return torch.stack([losses, -losses, -losses]).float()
        plain = losses if type(self).losses is Head.losses else Head.losses(self, logits.float(), targets)
        return torch.stack([losses, -plain, logits.argmax(dim=-1) == targets])


def targets_are_outputs(head: Any) -> bool:
    """Returns whether targets are numbers of outputs, as classes are."""
    return not head.output_types.isdisjoint(Head.output_types)


def _places(real: Real) -> Int[Tensor, " places"]:
    """Returns the positions that are computed: the real ones; on a device, which would be waited for, all."""
    if real.device.type == "cpu":
        return real.flatten().nonzero()[:, 0]
    return torch.arange(real.numel(), device=real.device)
