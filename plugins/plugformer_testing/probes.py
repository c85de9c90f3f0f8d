"""Small encodings, observers, norms and sublayers by which the suite looks into components."""

from collections.abc import Callable
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from plugformer.interfaces import (
    Attention,
    AttentionContext,
    Norm,
    PositionalEncoding,
    Positions,
    State,
    Sublayer,
)

Module = TypeVar("Module", bound=nn.Module)


class Turning(PositionalEncoding):
    """Rotates pairs of coordinates by their positions, as RoFormer does (https://arxiv.org/abs/2104.09864)."""

    def rotate(
        self, heads: Float[Tensor, "batch heads length head_width"], positions: Positions
    ) -> Float[Tensor, "batch heads length head_width"]:
        """Rotates the first and the second half of an even head width against each other; leaves odd ones."""
        if heads.shape[-1] % 2:
            return heads
        one, other = heads.chunk(2, dim=-1)
        rates = 0.7 ** torch.arange(one.shape[-1], dtype=heads.dtype)
        angles = positions.index[:, None, :, None] * rates
        cosine, sine = angles.cos().to(heads.dtype), angles.sin().to(heads.dtype)
        return torch.cat([one * cosine - other * sine, one * sine + other * cosine], dim=-1)


class Sloping(PositionalEncoding):
    """Lowers scores with distance, as ALiBi does (https://arxiv.org/abs/2108.12409), more behind than ahead.

    It also adds what query and key heads say about the distance between them, as DeBERTa does
    (https://arxiv.org/abs/2006.03654).

    Args:
        heads: Number of softmax maps.
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def bias(self, query: Positions, key: Positions) -> Float[Tensor, "#batch maps query key"]:
        """Returns the penalties."""
        ahead = (key.index[:, None, None, :] - query.index[:, None, :, None]).double()
        slopes = torch.linspace(0.3, 0.9, self.heads, dtype=torch.float64)[:, None, None]
        return torch.where(ahead > 0, -ahead, 1.5 * ahead) * slopes

    def content_bias(
        self,
        query_heads: Float[Tensor, "batch heads query head_width"],
        key_heads: Float[Tensor, "batch groups key head_width"],
        query: Positions,
        key: Positions,
    ) -> Float[Tensor, "batch heads query key"]:
        """Returns waves of the distance, as strong as query and key are large."""
        ahead = (key.index[:, None, None, :] - query.index[:, None, :, None]).to(query_heads.dtype)
        keys = key_heads.repeat_interleave(query_heads.shape[1] // key_heads.shape[1], dim=1)
        asked, told = query_heads.mean(dim=-1)[..., None], keys.mean(dim=-1)[:, :, None]
        return 0.5 * (asked * (0.9 * ahead).sin() + told * (1.3 * ahead).sin())


class SharedState(Attention):
    """An attention that reads the state of one in a layer below, which reads it, too.

    Args:
        owner: Projects the state.
        reader: Reads it.
    """

    def __init__(self, owner: Attention, reader: Attention) -> None:
        super().__init__()
        self.owner = owner
        self.reader = reader

    def project(self, memory: Float[Tensor, "batch key width"], positions: Positions) -> State:
        """Returns the owner's projection."""
        return self.owner.project(memory, positions)

    def attend(
        self, query: Float[Tensor, "batch query width"], state: State, context: AttentionContext
    ) -> Float[Tensor, "batch query width"]:
        """Returns the reader's output, after the owner has computed its own."""
        self.owner.attend(query, state, AttentionContext(context.query, context.key, causal=context.causal))
        return self.reader.attend(query, state, context)


class Collector:
    """Keeps what attention records.

    Attributes:
        taken: Everything recorded, by name; what is recorded twice is there twice.
    """

    def __init__(self) -> None:
        self.taken: dict[str, list[Tensor]] = {}

    def record(self, name: str, value: Tensor) -> None:
        """Takes a tensor."""
        self.taken.setdefault(name, []).append(value)


class Eraser(Collector):
    """Sets everything that attention records to zero, before attention uses it."""

    def record(self, name: str, value: Tensor) -> None:
        """Overwrites a tensor in place."""
        super().record(name, value)
        value.detach().zero_()


class RootMeanSquare(nn.RMSNorm, Norm):
    """PyTorch's own norm of root mean squares."""


class Function(Sublayer):
    """A sublayer without dropout that keeps what it is called with.

    Attributes:
        given: What it was called with, call by call.

    Args:
        compute: What it computes.
    """

    def __init__(self, compute: Callable[[Tensor], Tensor]) -> None:
        self.compute = compute
        self.given: list[Tensor] = []

    def __call__(self, hidden: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch length width"]:
        """Records the input and returns the output, under autocast in its type, as linear maps do."""
        self.given.append(hidden)
        output = self.compute(hidden)
        mixed = torch.is_autocast_enabled("cpu")
        return output.to(torch.get_autocast_dtype("cpu")) if mixed else output

    def added(
        self, x: Float[Tensor, "batch length width"], hidden: Float[Tensor, "batch length width"]
    ) -> Float[Tensor, "batch length width"]:
        """Returns `x` and what it computes, added."""
        return x + self(hidden)


def perturbed(module: Module, dtype: torch.dtype = torch.float64) -> Module:
    """Returns a module in evaluation mode, its parameters moved away from their initial values.

    What starts at zero, such as a gate or an output projection, could otherwise hide any fault.
    """
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return module.to(dtype).eval()


def gradients(module: nn.Module, output: Tensor) -> dict[str, Tensor]:
    """Returns the gradients that parameters get from a sum in which no two values count the same."""
    module.zero_grad()
    if output.requires_grad:
        weights = torch.linspace(0.5, 1.5, output.numel(), dtype=output.dtype)
        (output * weights.view(output.shape)).sum().backward()
    return {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}
