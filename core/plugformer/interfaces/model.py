"""Models, as training, evaluation and decoding use them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from numpy.typing import NDArray
from torch import Tensor, nn

from plugformer.errors import ConfigurationError
from plugformer.interfaces.batch import Batch, Encoded, Ragged, Tokens
from plugformer.interfaces.head import Head, HeadInput, Likelihoods, targets_are_outputs
from plugformer.interfaces.prediction import Level, OutputType
from plugformer.interfaces.spec import ModelSpec, PartSpec, Sizes
from plugformer.interfaces.tokenizer import SPECIAL_TOKENS, UNKNOWN

_MEASURES = {OutputType.NUMBER, OutputType.NUMBERS, OutputType.LABELS}
"""Outputs whose targets a head compares as real numbers."""


class Loss(NamedTuple):
    """The sum over a batch's targets, their number, and losses of components that join the mean loss."""

    total: Float[Tensor, ""]
    targets: Int[Tensor, ""]
    auxiliary: Float[Tensor, ""]


class Model(nn.Module, ABC):
    """Stacks and a head. `model(batch)` returns the loss.

    In a training loop of your own::

        loss = model(model.batch(inputs=[[5, 9, 4]], outputs=[[4, 9, 5]]))
        (loss.total / loss.targets + loss.auxiliary).backward()

    Attributes:
        level: What the head predicts from.
        head: Its head.
        spec: What it was built from; this and the next two are set after `Architecture.build`.
        sizes: Sizes of its vocabularies and its head.
        parts: The specification of each component by the path of its module.
        compiled_loss: Computes the head's loss in training, if it is compiled.
    """

    level: Level
    head: Head
    spec: ModelSpec
    sizes: Sizes
    parts: Mapping[str, PartSpec]
    compiled_loss: Callable[..., Any] | None = None

    @property
    def stacks(self) -> dict[str, nn.Module]:
        """Its stacks of layers, by name."""
        return {name: child for name, child in self.named_children() if hasattr(child, "layers")}

    def batch(
        self,
        inputs: Sequence[Sequence[int]] | None = None,
        outputs: Sequence[Sequence[int]] | None = None,
        targets: Sequence[Any] | None = None,
    ) -> Batch:
        """Returns examples as a batch on the model's device, with special tokens and padding.

        Args:
            inputs: The token ids that each example reads, without special tokens except `UNKNOWN`; None if
                there are none, as in a language model.
            outputs: At level `next-token` the token ids that each example is to generate.
            targets: At level `sequence` a number for each example, or as many as the head has outputs; at
                level `token` a list with a number for each input token, None for a token without a target.

        Raises:
            ConfigurationError: The architecture reads inputs, and there are none; inputs, outputs and targets
                do not match; a token id is special, negative or beyond the vocabulary; or a target of a
                classifier is not the number of an output, as an integer.
        """
        if inputs is None and not self.spec.architecture.reads((), self.level):
            raise ConfigurationError("this architecture reads inputs; give `inputs`")
        given = {"inputs": inputs, "outputs": outputs, "targets": targets}
        counts = {name: len(rows) for name, rows in given.items() if rows is not None}
        if len({*counts.values()}) > 1:
            raise ConfigurationError(f"expected equally many rows, found {counts}")
        name = self.spec.inputs[0].name
        numbers = Ragged.of if self.level is Level.TOKEN else np.asarray
        encoded = Encoded(
            {} if inputs is None else {name: _tokens(inputs, self.sizes.source)},
            None if outputs is None else _tokens(outputs, self.sizes.outputs),
            None if targets is None else numbers(targets),
        )
        if isinstance(encoded.targets, Ragged) and encoded.input is not None:
            found, expected = encoded.targets.lengths, encoded.input.lengths
            for row in np.flatnonzero(found != expected):
                words = f"example {row} has {found[row]} targets for {expected[row]} input tokens"
                raise ConfigurationError(f"{words}; expected one each, None for a token without a target")
        if encoded.targets is not None and self.level is not Level.VECTOR and targets_are_outputs(self.head):
            _check_targets(encoded.targets, self.sizes.outputs)
        elif isinstance(encoded.targets, np.ndarray) and not _MEASURES.isdisjoint(self.head.output_types):
            encoded = replace(encoded, targets=encoded.targets.astype(np.float32))
        return self.spec.architecture.collate(encoded, self.level).to(self.device)

    @property
    def device(self) -> torch.device:
        """Where its parameters are."""
        return next(self.parameters()).device

    @abstractmethod
    def targets(self, batch: Batch) -> tuple[Shaped[Tensor, "..."], Bool[Tensor, "batch length"]]:
        """Returns the head's `targets`, and `real`, a mask of the hidden states that it predicts from."""

    @abstractmethod
    def hidden(self, batch: Batch) -> Float[Tensor, "batch length width"]:
        """Returns the last hidden states, at level `vector` a vector for each row of an example."""

    def read(self, batch: Batch) -> tuple[Float[Tensor, "batch length width"], HeadInput]:
        """Returns the last hidden states, and what else the head sees.

        A model that has a memory overrides it, and `Generative.head_input`.
        """
        real = self.targets(batch)[1]
        return self.hidden(batch), HeadInput(real, batch.source, weights=batch.weights)

    def count(self, batch: Batch) -> int:
        """Returns the number of targets in a batch: examples, or real positions."""
        real = self.targets(batch)[1]
        of_tokens = self.level in (Level.TOKEN, Level.NEXT_TOKEN)
        return int(real.sum()) if of_tokens else len(real)

    def forward(self, batch: Batch, objective: Callable[["Model", Batch], Loss] | None = None) -> Loss:
        """Returns the loss of a batch, or that of an objective, within the forward pass of a wrapper.

        Raises:
            ConfigurationError: The batch has neither outputs nor targets.
        """
        if objective is not None:
            return objective(self, batch)
        self._take_auxiliary_losses()  # of layers that were computed again, or in evaluation mode
        targets, _ = self.targets(batch)
        if not len(targets):
            raise ConfigurationError("a loss needs outputs or targets, and the batch has none")
        hidden, context = self.read(batch)
        compiled = self.compiled_loss if self.training else None
        loss = partial(self.head, "loss") if compiled is None else partial(compiled, self.head)
        total, count = loss(hidden, targets, context)
        return Loss(total, count, sum(self._take_auxiliary_losses(), total.new_zeros(())))

    def _take_auxiliary_losses(self) -> list[Float[Tensor, ""]]:
        """Returns the auxiliary losses of the layers' parts, and removes them."""
        layers = (layer for stack in self.stacks.values() for layer in cast("Iterable[Any]", stack.layers))
        parts = (part for layer in layers for part in (*layer.parts.values(), layer.residual))
        losses = (vars(part).pop("auxiliary_loss", None) for part in parts)
        return [loss for loss in losses if loss is not None]

    def take_cross_attention(self) -> Float[Tensor, "batch heads length source"] | None:
        """Returns the weights of the last cross-attention, and removes them; None if the head reads none.

        Raises:
            ConfigurationError: It records no weights.
        """
        if "cross_attention" not in self.head.reads:
            return None
        found = [vars(stack).pop("cross_attention_weights", None) for stack in self.stacks.values()]
        if found[-1] is None:
            raise ConfigurationError(
                f"{type(self.head).__name__} reads the weights of the last cross-attention, which records "
                "none\nchoose another attention there, such as mha"
            )
        return cast("Tensor", found[-1])

    def logits(self, batch: Batch) -> Float[Tensor, "batch *length outputs"]:
        """Returns the head's scores under teacher forcing."""
        return cast("Tensor", self.head("logits", *self.read(batch)))

    def likelihoods(self, batch: Batch) -> Likelihoods:
        """Returns the likelihoods of each example's targets under teacher forcing."""
        hidden, context = self.read(batch)
        return self.head.likelihoods(hidden, self.targets(batch)[0], context)

    def best(self, batch: Batch) -> tuple[Int[Tensor, " batch *length"], Float[Tensor, " batch"]]:
        """Returns the most probable outputs, and the log-probability of those of each example."""
        return self.head.best(*self.read(batch))


class Generative(Model):
    """A model that can continue a sequence, token by token."""

    @abstractmethod
    def begin(self, batch: Batch) -> tuple[Any, Float[Tensor, "batch width"]]:
        """Returns the cache of all given tokens, and the hidden state of the last of each row.

        The cache's `select(rows, examples=None)` keeps these rows of outputs, in this order, and of the
        inputs, if they are kept apart, `examples`. Then rows are grouped by input, equally many for each.
        For export, `tensors` has all that it keeps, and `rebuilt(tensors)` is a cache like it with others.
        """

    @abstractmethod
    def step(self, tokens: Tokens, past: Any) -> Float[Tensor, "rows new width"]:
        """Returns the hidden states of the next tokens of every row, and adds them to the cache."""

    def head_input(
        self,
        batch: Batch,
        past: Any,  # noqa: ARG002 (a default)
        hidden: Float[Tensor, "batch width"],
    ) -> HeadInput:
        """Returns what the head sees besides the hidden states that `begin` returns, one of each row."""
        return HeadInput(torch.ones_like(hidden[:, :1], dtype=torch.bool), batch.source)

    @abstractmethod
    def input_lengths(self, batch: Batch) -> Int[Tensor, " batch"]:
        """Returns the number of each example's input tokens, without special tokens."""

    @abstractmethod
    def room(self, batch: Batch) -> Int[Tensor, " batch"]:
        """Returns the most tokens that each output may have, without END, within the model's length."""


def _tokens(rows: Sequence[Sequence[int]], vocabulary: int) -> Ragged:
    tokens = Ragged.of(rows)
    for token in set(tokens.values.tolist()) - {UNKNOWN, *range(len(SPECIAL_TOKENS), vocabulary)}:
        expected = f"{len(SPECIAL_TOKENS)} to {vocabulary - 1}, or {UNKNOWN} for an unknown token"
        raise ConfigurationError(f"an example has the token id {token}; expected {expected}")
    return tokens


def _check_targets(targets: Ragged | NDArray[Any], outputs: int) -> None:
    of_tokens = isinstance(targets, Ragged)
    values = targets.values[targets.present] if isinstance(targets, Ragged) else targets
    wrong = set(values.ravel().tolist()) - {*range(outputs)}
    for target in values.ravel().tolist() if np.issubdtype(values.dtype, np.floating) else wrong:
        expected = f"0 to {outputs - 1}{', or None for a token without a target' * of_tokens}"
        raise ConfigurationError(f"an example has the target {target!r}; expected {expected}")


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """A context in which a model is in evaluation mode and no gradients are computed."""
    training = model.training
    if training:  # each change visits every module
        model.eval()
        model._take_auxiliary_losses()
    device = model.device.type
    mixed = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    try:
        # In inference mode, autocast casts every weight again at every use.
        with torch.inference_mode(not mixed), torch.no_grad():
            yield
    finally:
        if training:
            model.train()
