"""Relative position buckets of T5: a learned score for every head and range of distances."""

import math
from typing import Annotated

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import embedding

from plugformer.errors import ConfigurationError
from plugformer.interfaces import ModelContext, PositionalEncoding, Positions


class T5(PositionalEncoding):
    """Adds a learned number to each score, chosen by head and by the bucket of key minus query position.

    Exploring the Limits of Transfer Learning, Raffel et al. 2020, section 2.1:
    https://arxiv.org/abs/1910.10683; the buckets are those of Mesh TensorFlow's `_relative_position_bucket`
    (https://github.com/tensorflow/mesh). The table is (buckets, heads), shared by all layers of a stack.

    Where attention is causal, all buckets are for the past; elsewhere half of them are for keys ahead of the
    query, half for the others. Of n buckets for one direction the distances below n / 2 have one each; longer
    ones share buckets whose width grows geometrically, and the last holds everything from `max_distance` on.

    Args:
        model: Sizes of the model, and whether attention is causal.
        buckets: Number of buckets, both directions together.
        max_distance: Distance from which all share the last bucket; more than half the buckets of a
            direction.
        bidirectional: Whether half of the buckets are for keys ahead. None: unless attention is causal.

    Raises:
        ConfigurationError: max_distance is too small for the number of buckets.
    """

    def __init__(
        self,
        model: ModelContext,
        *,
        buckets: Annotated[int, Field(ge=4, multiple_of=4)] = 32,
        max_distance: Annotated[int, Field(ge=2)] = 128,
        bidirectional: bool | None = None,
    ) -> None:
        super().__init__()
        self.bidirectional = not model.place.causal if bidirectional is None else bidirectional
        self.each = buckets // 2 if self.bidirectional else buckets
        if max_distance <= self.each // 2:
            raise ConfigurationError(
                f"max_distance {max_distance} is too small for {self.each} buckets of a direction; expected "
                f"at least {self.each // 2 + 1}, more than half of them: raise max_distance or lower buckets"
            )
        self.max_distance = max_distance
        self.deviation = model.width**-0.5
        self.table = nn.Parameter(torch.empty(buckets, model.heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the table from a normal distribution of deviation width^-0.5, as T5 does."""
        nn.init.normal_(self.table, std=self.deviation)

    def bias(self, query: Positions, key: Positions) -> Float[Tensor, "#batch heads query key"]:
        """Returns each head's number for the bucket of every pair."""
        ahead = key.index[:, None, :] - query.index[:, :, None]  # (1 or batch, query, key)
        return embedding(self._bucket(ahead), self.table).permute(0, 3, 1, 2)

    def _bucket(self, ahead: Int[Tensor, "#batch query key"]) -> Int[Tensor, "#batch query key"]:
        exact = self.each // 2
        distance = ahead.abs() if self.bidirectional else ahead.neg().clamp(min=0)
        growth = torch.log(distance.clamp(min=exact) / exact) / math.log(self.max_distance / exact)
        shared = (exact + (growth * (self.each - exact)).long()).clamp(max=self.each - 1)
        bucket = torch.where(distance < exact, distance, shared)
        return bucket + self.each * (ahead > 0) if self.bidirectional else bucket
