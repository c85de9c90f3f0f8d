"""The benchmark's model once more, written as one piece: what assembling it from components is compared with.

It calls what the components call, and nothing lies between: no registry, no states, no contexts.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from peers import DROPOUT, HEADS, HIDDEN, LAYERS, LONGEST, VOCABULARY, WIDTH, Ids
from torch import Tensor, nn
from torch.nn import functional

from plugformer.interfaces import PADDING
from plugformer.model.layer import Dropout
from plugformer_blocks import IGNORED, linear_cross_entropy

Hidden = Float[Tensor, "batch length width"]


class Attention(nn.Module):
    """Multi-head attention with its residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.dropout, self.norm = Dropout(DROPOUT), nn.LayerNorm(WIDTH)

    def forward(self, x: Hidden, memory: Hidden, mask: Tensor | None, *, causal: bool = False) -> Hidden:
        """Returns norm(x + dropout(attention(x, memory)))."""
        if memory is x:
            query, key, value = _heads(x, self.query, self.key, self.value)
        else:
            (query,), (key, value) = _heads(x, self.query), _heads(memory, self.key, self.value)
        read = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
        output: Tensor = self.norm(self.dropout.added(x, self.output(read.transpose(1, 2).flatten(-2))))
        return output


def _heads(x: Hidden, *maps: nn.Linear) -> Sequence[Tensor]:
    """Returns the heads that linear maps make, by one product."""
    weight, bias = (torch.cat([getattr(each, name) for each in maps]) for name in ("weight", "bias"))
    made = functional.linear(x, weight, bias)
    return made.unflatten(-1, (len(maps) * HEADS, -1)).transpose(1, 2).split(HEADS, dim=1)


class FeedForward(nn.Module):
    """The position-wise network with its residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)
        self.dropout, self.norm = Dropout(DROPOUT), nn.LayerNorm(WIDTH)

    def forward(self, x: Hidden) -> Hidden:
        """Returns norm(x + dropout(network(x)))."""
        made = self.down(functional.relu(self.up(x), inplace=True))
        output: Tensor = self.norm(self.dropout.added(x, made))
        return output


class HandWritten(nn.Module):
    """The encoder-decoder; called with source and target it returns the mean loss."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(VOCABULARY, WIDTH) * WIDTH**-0.5)
        rates = 10_000 ** (-torch.arange(0, WIDTH, 2) / WIDTH)
        angles = torch.arange(LONGEST)[:, None] * rates
        self.register_buffer("positions", torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1))
        self.dropout = Dropout(DROPOUT)
        self.encoder = nn.ModuleList(nn.ModuleList([Attention(), FeedForward()]) for _ in range(LAYERS))
        self.decoder = nn.ModuleList(
            nn.ModuleList([Attention(), Attention(), FeedForward()]) for _ in range(LAYERS)
        )

    def forward(self, source: Ids, target: Ids) -> Float[Tensor, ""]:
        """Returns the mean loss over the real targets."""
        real, before, after = source != PADDING, target[:, :-1], target[:, 1:]
        mask = None if real.all() else real[:, None, None, :]
        memory = self._embed(source)
        for attention, network in self.encoder:
            memory = network(attention(memory, memory, mask))
        x = self._embed(before)
        for attention, cross, network in self.decoder:
            x = network(cross(attention(x, x, None, causal=True), memory, mask))
        wanted = after != PADDING
        targets = after.masked_fill(~wanted, IGNORED).flatten()
        return linear_cross_entropy(x.flatten(0, 1), self.embedding, targets) / wanted.sum()

    def _embed(self, ids: Ids) -> Hidden:
        embedded = functional.embedding(ids, self.embedding) * WIDTH**0.5
        output: Tensor = self.dropout(embedded + self.positions[: ids.shape[1]])
        return output
