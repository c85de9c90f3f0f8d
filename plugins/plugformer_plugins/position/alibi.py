"""Attention with linear biases: scores fall with distance."""

import torch
from jaxtyping import Float
from torch import Tensor

from plugformer.interfaces import ModelContext, PositionalEncoding, Positions


class ALiBi(PositionalEncoding):
    """Attention with linear biases; scores fall with distance, with a different slope in each head.

    Adds -slope * |i - j| to the score of query position i and key position j.

    Train Short, Test Long, Press et al. 2022, section 3: https://arxiv.org/abs/2108.12409. The paper's
    decoder only looks back, where |i - j| = i - j. In an encoder keys also lie ahead; there the same penalty
    holds in both directions (i - j alone would reward keys for being far ahead).

    Args:
        model: Sizes of the model; every head has its own slope.
    """

    def __init__(self, model: ModelContext) -> None:
        super().__init__()
        self.slopes = slopes(model.heads)
        self._there: dict[torch.device, Tensor] = {}

    def bias(self, query: Positions, key: Positions) -> Float[Tensor, "#batch heads query key"]:
        """Returns the penalties in float32, zero at the query's own position.

        Softmax would allow any constant for each row. With this one, the rounding of mixed precision
        (bfloat16 cannot tell 256 from 257) is at most 1/512 of a penalty, so that near keys keep their
        weights.
        """
        distance = (query.index[:, None, :, None] - key.index[:, None, None, :]).abs()
        return distance * -self._on(distance.device)[:, None, None]

    def _on(self, device: torch.device) -> Float[Tensor, " heads"]:
        """Returns the slopes on a device, in float32 whatever the model; copied once, as a copy waits."""
        if torch.compiler.is_compiling():  # a constant, and not to be kept
            return torch.tensor(self.slopes, dtype=torch.float32, device=device)
        if device not in self._there:
            with torch.inference_mode(False):
                self._there[device] = torch.tensor(self.slopes, dtype=torch.float32, device=device)
        return self._there[device]


def slopes(heads: int) -> list[float]:
    """Returns each head's slope.

    For a power of two, n heads: 2^(-8/n), 2^(-16/n), ..., 2^(-8). For other numbers, as in the authors' code
    (https://github.com/ofirpress/attention_with_linear_biases): the slopes of the next lower power of two,
    then every other slope of twice that power, from the first, until there are enough.
    """
    power = 1 << (heads.bit_length() - 1)
    lower, higher = (
        [2.0 ** (-8 * (head + 1) / count) for head in range(count)] for count in (power, 2 * power)
    )
    return lower + higher[::2][: heads - power]
