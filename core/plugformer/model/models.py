"""Whole models: what training, evaluation and decoding see."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from plugformer.data.batches import Batch, Tokens
from plugformer.interfaces import Head
from plugformer.model.decoder import Decoder
from plugformer.model.encoder import Encoder, Memory


class Loss(NamedTuple):
    """A batch's loss, in parts that add up over micro-batches and processes.

    Attributes:
        total: Sum over the batch's targets.
        targets: Number of targets.
        auxiliary: Components' own losses, added to the mean loss as they are.
    """

    total: Float[Tensor, ""]
    targets: Int[Tensor, ""]
    auxiliary: Float[Tensor, ""]


class Likelihoods(NamedTuple):
    """How probable the right answers to a batch are, example by example.

    Attributes:
        log_probabilities: Natural logarithm of the probability of all of an example's targets together.
        targets: Number of targets.
        correct: How many of them are the most probable output.
    """

    log_probabilities: Float[Tensor, " batch"]
    targets: Int[Tensor, " batch"]
    correct: Int[Tensor, " batch"]


_POSITIONS = 1024


class Model(nn.Module, ABC):
    """Stacks and a head. Called with a batch it returns the loss, so that wrappers see every pass."""

    encoder: Encoder
    head: Head

    @abstractmethod
    def targets(self, batch: Batch) -> tuple[Int[Tensor, "..."], Bool[Tensor, "batch length"]]:
        """Returns what the head should predict, and which hidden states it predicts from."""

    @abstractmethod
    def count(self, batch: Batch) -> int:
        """Returns the number of targets in a batch."""

    @abstractmethod
    def hidden(self, batch: Batch) -> Float[Tensor, "batch length width"]:
        """Returns the last hidden states, from which the head predicts."""

    def forward(self, batch: Batch, objective: Callable[["Model", Batch], Loss] | None = None) -> Loss:
        """Returns the loss of a batch.

        Args:
            batch: The batch.
            objective: Computes it instead, from this model's methods: inside of the pass that wrappers see.
        """
        if objective is not None:
            return objective(self, batch)
        for module in self.modules():  # what layers have left that were computed again, or in evaluation mode
            module.__dict__.pop("auxiliary_loss", None)
        hidden = self.hidden(batch)
        total, targets = self.head.loss(hidden, *self.targets(batch))
        return Loss(total, targets, self._collect_auxiliary_losses(total))

    def logits(self, batch: Batch) -> Float[Tensor, "batch *length outputs"]:
        """Returns the head's scores, given the right answers so far (teacher forcing)."""
        return self.head.logits(self.hidden(batch), self.targets(batch)[1])

    def likelihoods(self, batch: Batch) -> Likelihoods:
        """Returns how probable each example's targets are, given the right answers so far."""
        hidden, (targets, real) = self.hidden(batch), self.targets(batch)
        if targets.dim() < real.dim():
            found = _likelihoods(self.head.logits(hidden, real), targets)
            return Likelihoods(found[0], torch.ones_like(targets), found[1])
        log_probabilities = hidden.new_zeros(real.shape, dtype=torch.float32)
        correct = torch.zeros_like(targets)
        # Scores over a whole vocabulary are large: real positions alone, and only so many at a time.
        for part in real.nonzero().split(_POSITIONS):
            at = tuple(part.T)
            logits = self.head.logits(hidden[at][None], real[at][None])[0]
            log_probabilities[at], correct[at] = _likelihoods(logits, targets[at])
        return Likelihoods(log_probabilities.sum(dim=1), real.sum(dim=1), correct.sum(dim=1))

    def _collect_auxiliary_losses(self, total: Float[Tensor, ""]) -> Float[Tensor, ""]:
        """Adds up what components left in `auxiliary_loss`, and clears it."""
        auxiliary = total.new_zeros(())
        for module in self.modules():
            loss = module.__dict__.pop("auxiliary_loss", None)
            auxiliary = auxiliary if loss is None else auxiliary + loss
        return auxiliary


def _likelihoods(
    logits: Float[Tensor, "targets outputs"], targets: Int[Tensor, " targets"]
) -> tuple[Float[Tensor, " targets"], Int[Tensor, " targets"]]:
    """Returns each target's log-probability, and 1 where it is the most probable output."""
    losses = functional.cross_entropy(logits.float(), targets, reduction="none")
    return -losses, (logits.argmax(dim=-1) == targets).long()


class EncoderDecoder(Model):
    """Reads a source sequence and continues a target sequence."""

    def __init__(self, encoder: Encoder, decoder: Decoder, head: Head) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.head = head

    def targets(self, batch: Batch) -> tuple[Int[Tensor, "batch length"], Bool[Tensor, "batch length"]]:
        """Returns the target tokens after BEGIN: each is predicted from those before it."""
        return batch.target.ids[:, 1:], _has_next(batch.target)

    def count(self, batch: Batch) -> int:
        """Returns the number of target tokens, END included."""
        return int(_has_next(batch.target).sum())

    def hidden(self, batch: Batch) -> Float[Tensor, "batch length width"]:
        """Returns the decoder's hidden states over the target, the encoder's output in view."""
        target = batch.target
        before = Tokens(target.ids[:, :-1], _has_next(target), target.padding)
        hidden: Tensor = self.decoder(before, self.decoder.start(self.encoder(batch.source)))
        return hidden


def _has_next(target: Tokens) -> Bool[Tensor, "batch length"]:
    """Returns, for all positions but the last, whether a real token stands there and another follows."""
    return target.real[:, :-1] & target.real[:, 1:]


class EncoderOnly(Model):
    """Reads a sequence and predicts from it as a whole."""

    def __init__(self, encoder: Encoder, head: Head) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head

    def targets(self, batch: Batch) -> tuple[Int[Tensor, " labels"], Bool[Tensor, "batch length"]]:
        """Returns the labels (none of texts that are to be answered), and which tokens are real."""
        return batch.labels, batch.source.real

    def count(self, batch: Batch) -> int:
        """Returns the number of labels."""
        return len(batch.labels)

    def hidden(self, batch: Batch) -> Float[Tensor, "batch length width"]:
        """Returns the encoder's hidden states."""
        memory: Memory = self.encoder(batch.source)
        return memory.hidden


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Inside, a model is in evaluation mode and no gradients are kept."""
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(training)
