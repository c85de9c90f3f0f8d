"""A decoder alone: one causal stack continues a text, whose beginning may be an input."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int, Shaped
from numpy import ndarray
from torch import Tensor

from plugformer.interfaces import (
    BEGIN,
    CAUSAL,
    END,
    Architecture,
    Batch,
    Encoded,
    Generative,
    Head,
    Level,
    Ragged,
    Tokens,
    View,
)
from plugformer.model import Builder, Cache, Decoder, Limits, Sizes
from plugformer_blocks import before_next, next_tokens, pad, pad_targets


class DecoderOnly(Architecture):
    """One causal stack continues a text, which may begin with an input.

    Reads BEGIN, the input and END, and continues with the output; the loss is that of the output alone.

    Texts without an input follow BEGIN. Where a task predicts from the whole input, that is all it reads.
    Radford et al. 2018, Improving Language Understanding by Generative Pre-Training, sections 3.1 to 3.3:
    https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf.
    """

    levels = frozenset({Level.NEXT_TOKEN, Level.SEQUENCE})
    stacks: ClassVar[tuple[tuple[str, View], ...]] = (("decoder", CAUSAL),)

    def collate(self, encoded: Encoded, level: Level, *, lengths: Sequence[int] = ()) -> Batch:
        """Returns the target: the given tokens followed by the outputs."""
        (length,) = lengths or (0,)
        if level is Level.SEQUENCE:
            assert encoded.input is not None  # noqa: S101 (task types of this level have one)
            target = pad(encoded.input, begin=True, length=length)
            return Batch(target=target, targets=pad_targets(encoded.targets))
        given = encoded.start or Ragged.repeated(BEGIN, len(encoded))
        if encoded.input is not None:
            end = Ragged.repeated(END, len(encoded))
            given = given.followed_by(encoded.input).followed_by(end)
        whole = given if encoded.output is None else given.followed_by(encoded.output)
        end_follows = encoded.output is not None and encoded.complete
        return Batch(
            target=pad(whole, end=end_follows, length=length),
            given=torch.from_numpy(given.lengths.copy()),
        )

    def positions(self, lengths: Int[ndarray, "examples parts"], level: Level) -> Int[ndarray, "examples 1"]:
        """Returns the lengths of the sequences, BEGIN and END counted."""
        whole: ndarray = 1 + (lengths + 1).sum(axis=1, keepdims=True)
        return whole

    def limits(self, max_length: int, level: Level) -> Limits:
        """Returns the room that BEGIN, and END after an input, leave."""
        return Limits(max_length - 2, max_length - 1, max_length - 2)

    def build(self, builder: Builder, sizes: Sizes, level: Level) -> Generative:
        """Returns a decoder and a head."""
        embedding = builder.embedding(sizes.source, tied=builder.spec.tied_embeddings)
        head = builder.head(sizes.outputs, embedding)
        return DecoderModel(builder.decoder(embedding), head, level, builder.spec.max_length)


class DecoderModel(Generative):
    """Continues a sequence."""

    def __init__(self, decoder: Decoder, head: Head, level: Level, max_length: int) -> None:
        super().__init__()
        self.decoder = decoder
        self.head = head
        self.level = level
        self._max_length = max_length

    def targets(self, batch: Batch) -> tuple[Shaped[Tensor, "..."], Bool[Tensor, "batch length"]]:
        """Returns the tokens after what is given, each predicted from those before it; or the classes."""
        if self.level is not Level.NEXT_TOKEN:
            return batch.targets, batch.target.mask
        following, real = next_tokens(batch.target)
        column = torch.arange(1, following.shape[1] + 1, device=following.device)
        return following, real & (column >= _given(batch)[:, None])

    def hidden(self, batch: Batch) -> Float[Tensor, "batch length width"]:
        """Returns the hidden states."""
        target = batch.target
        if self.level is Level.NEXT_TOKEN:
            target = before_next(target)
        hidden: Tensor = self.decoder(target)
        return hidden

    def begin(self, batch: Batch) -> tuple[Cache, Float[Tensor, "batch width"]]:
        """Returns the decoder's cache of all given tokens, and the hidden state of the last of each row."""
        cache, target, given = self.decoder.start(), batch.target, _given(batch)
        least = most = target.ids.shape[1]
        if not torch.compiler.is_exporting():  # shapes must not depend on lengths
            least, most = torch.stack(given.aminmax()).tolist()
        column = torch.arange(most, device=given.device)
        target = target.narrow(most)
        real = target.mask & (column < given[:, None])
        target = replace(target, mask=real, full=least == most and not torch.compiler.is_exporting())
        hidden: Tensor = self.decoder(target, cache=cache)
        last = (given - 1)[:, None, None].expand(-1, 1, hidden.shape[-1])
        return cache, hidden.gather(1, last)[:, 0]

    def step(self, tokens: Tokens, past: Cache) -> Float[Tensor, "rows new width"]:
        """Returns the hidden states of the next tokens."""
        hidden: Tensor = self.decoder(tokens, cache=past)
        return hidden

    def input_lengths(self, batch: Batch) -> Int[Tensor, " batch"]:
        """Returns the number of given tokens that are not special."""
        given = _given(batch)
        last = batch.target.ids.gather(1, given[:, None] - 1)[:, 0]
        return given - 1 - (last == END).long()

    def room(self, batch: Batch) -> Int[Tensor, " batch"]:
        """Returns the positions left after the given tokens."""
        return self._max_length - _given(batch)


def _given(batch: Batch) -> Int[Tensor, " batch"]:
    """Returns the number of each row's tokens that are given."""
    return torch.ones_like(batch.target.ids[:, 0]) if batch.given is None else batch.given
