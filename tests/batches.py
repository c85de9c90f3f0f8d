"""Batches as the built-in architectures arrange them, of lists of token numbers."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from plugformer.interfaces import Batch, Encoded, Level, Ragged
from plugformer_plugins.architecture.encoder_decoder import EncoderDecoder
from plugformer_plugins.architecture.encoder_only import EncoderOnly

Lists = Sequence[Sequence[int]]


def pairs(sources: Lists, targets: Lists | None = None, rows: Sequence[int] = ()) -> Batch:
    """Returns a batch of sources and targets; without targets one to predict from."""
    output = None if targets is None else Ragged.of(targets)
    encoded = Encoded({"input": Ragged.of(sources)}, output)
    return replace(EncoderDecoder().collate(encoded, Level.NEXT_TOKEN), rows=list(rows))


def labeled(texts: Lists, labels: Sequence[int] | None = None, rows: Sequence[int] = ()) -> Batch:
    """Returns a batch of texts and the numbers of their classes."""
    targets = None if labels is None else np.array(labels)
    encoded = Encoded({"input": Ragged.of(texts)}, targets=targets)
    return replace(EncoderOnly().collate(encoded, Level.SEQUENCE), rows=list(rows))


def split_of(batches: Sequence[Batch]) -> SimpleNamespace:
    """Returns what stands for a split; a planned batch is the number of one of these, in a list."""
    return SimpleNamespace(lengths=None, batch=lambda number, epoch: batches[number], described=str)
