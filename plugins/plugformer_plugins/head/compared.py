"""Heads that compare two texts, which the encoder reads one after the other."""

import torch
from jaxtyping import Float
from torch import Tensor

from plugformer.interfaces import HeadInput
from plugformer_blocks import pool
from plugformer_plugins.head.pooling import Classifier, Hidden, Pooled, Regressor


class Compared(Pooled):
    """Pools each text by itself: both vectors, their absolute difference and their product.

    Conneau et al. 2017, section 3.1, https://arxiv.org/abs/1705.02364. Of more than two texts the first is
    compared with all others; of one text the second vector is 0.
    """

    parts = 4
    reads = frozenset({"source"})

    def pooled(self, hidden: Hidden, context: HeadInput) -> Float[Tensor, "batch features"]:
        """Returns the four vectors of each pair, one after the other."""
        segment = context.source.marks.get("segment", torch.zeros_like(context.real, dtype=torch.long))
        first = pool(hidden, context.real & (segment == 0), self.pooling)
        second = pool(hidden, context.real & (segment > 0), self.pooling)
        return torch.cat([first, second, (first - second).abs(), first * second], dim=-1)


class PairClassifier(Compared, Classifier):
    """One label for two texts, from the vectors of both and how they differ.

    Conneau et al. 2017, section 3.1, https://arxiv.org/abs/1705.02364.
    """


class PairRegressor(Compared, Regressor):
    """A number for two texts, from the vectors of both and how they differ; squared error.

    The vectors of Conneau et al. 2017, section 3.1, https://arxiv.org/abs/1705.02364.
    """
