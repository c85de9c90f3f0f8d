"""A decoder that reads its input in both directions: a prefix language model."""

from collections.abc import Sequence
from dataclasses import replace

from plugformer.interfaces import Batch, Encoded, Level
from plugformer_blocks import Prefix
from plugformer_plugins.architecture.decoder_only import DecoderOnly


class PrefixLM(DecoderOnly):
    """One stack reads an input in both directions, and continues it token by token.

    Like `decoder-only`, but each token of the input sees all of it; texts without an input have no prefix.

    Raffel et al. 2020, section 3.2.1: https://arxiv.org/abs/1910.10683. The END after the input, from which
    the first output is predicted, is no part of the prefix. Where a task predicts from the whole input, all
    of it is.
    """

    stacks = (("decoder", Prefix()),)

    def collate(self, encoded: Encoded, level: Level, *, lengths: Sequence[int] = ()) -> Batch:
        """Returns the target, whose given tokens but the last are marked as the prefix."""
        batch = super().collate(encoded, level, lengths=lengths)
        if encoded.input is None:
            return batch
        prefix = batch.target.mask
        if batch.given is not None:
            prefix = prefix & (prefix.long().cumsum(dim=1) < batch.given[:, None])
        return replace(batch, target=replace(batch.target, marks={"in_prefix": prefix.long()}))
