"""Padded batches, and small encodings, observers, norms and sublayers with which components are tried."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from plugformer.interfaces import (
    Attention,
    AttentionContext,
    Norm,
    Padding,
    PositionalEncoding,
    Positions,
    State,
    Sublayer,
    View,
)
from plugformer_testing import require

Module = TypeVar("Module", bound=nn.Module)


@dataclass(frozen=True)
class PaddedBatch:
    """The rows of a batch, drawn with x for a real token and . for padding, all of the same length."""

    rows: tuple[str, ...]
    padding: Padding

    @property
    def mask(self) -> Bool[Tensor, "batch length"]:
        """True for real tokens, False for padding."""
        return torch.tensor([[mark == "x" for mark in row] for row in self.rows])

    def at(self, encoding: PositionalEncoding, start: int = 0) -> Positions:
        """Returns the positions of the tokens, the first of which stand at `start`."""
        return Positions.of(self.mask, encoding, self.padding, start=start)


def full(batch: int, length: int) -> PaddedBatch:
    """Returns a batch without padding."""
    return PaddedBatch(("x" * length,) * batch, Padding.NONE)


FULL = (full(1, 1), full(1, 2), full(2, 7))  # without padding
PADDED = (
    PaddedBatch(("xx", "x."), Padding.RIGHT),
    PaddedBatch(("xx", ".x"), Padding.ANYWHERE),
    PaddedBatch(("xxxxx", "xxx..", "x...."), Padding.RIGHT),
    PaddedBatch(("xxxxx", "..xxx", "....x"), Padding.ANYWHERE),
    PaddedBatch((".xxx.", "xxxxx", "x.x.x"), Padding.ANYWHERE),
)

BATCHES = (*FULL[:2], *PADDED[:2], FULL[2], *PADDED[2:])  # all, the smallest first


def example(*shape: int, dtype: torch.dtype) -> Tensor:
    """Returns the same irregular values each time, between -1.5 and 1.5."""
    numbers = torch.arange(math.prod(shape), dtype=torch.float64)
    return (1.5 * (1.7 * numbers + 0.1 * numbers.sqrt()).sin()).view(shape).to(dtype)


class Turning(PositionalEncoding):
    """Rotates pairs of coordinates by their positions (RoFormer, https://arxiv.org/abs/2104.09864)."""

    def rotate(self, heads: Tensor, positions: Positions) -> Tensor:
        """Rotates the two halves of an even head width against each other; an odd one stays as it is."""
        if heads.shape[-1] % 2:
            return heads
        one, other = heads.chunk(2, dim=-1)
        rates = 0.7 ** torch.arange(one.shape[-1], dtype=heads.dtype)
        angles = positions.index[:, None, :, None] * rates
        cosine, sine = angles.cos().to(heads.dtype), angles.sin().to(heads.dtype)
        return torch.cat([one * cosine - other * sine, one * sine + other * cosine], dim=-1)


class Sloping(PositionalEncoding):
    """Adds slopes of the distance (https://arxiv.org/abs/2108.12409), and of it times the heads."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def bias(self, query: Positions, key: Positions) -> Tensor:
        """Returns the penalties."""
        ahead = (key.index[:, None, None, :] - query.index[:, None, :, None]).double()
        slopes = torch.linspace(0.3, 0.9, self.heads, dtype=torch.float64)[:, None, None]
        return torch.where(ahead > 0, -ahead, 1.5 * ahead) * slopes

    def content_bias(
        self, query_heads: Tensor, key_heads: Tensor, query: Positions, key: Positions
    ) -> Tensor:
        """Returns waves of the distance, as strong as query and key are large."""
        ahead = (key.index[:, None, None, :] - query.index[:, None, :, None]).to(query_heads.dtype)
        keys = key_heads.repeat_interleave(query_heads.shape[1] // key_heads.shape[1], dim=1)
        by_query, by_key = query_heads.mean(dim=-1)[..., None], keys.mean(dim=-1)[:, :, None]
        return 0.5 * (by_query * (0.9 * ahead).sin() + by_key * (1.3 * ahead).sin())


class SharedState(Attention):
    """An attention that reads the state of another (`owner`) in a layer below, which reads it, too."""

    def __init__(self, owner: Attention, reader: Attention) -> None:
        super().__init__()
        self.owner, self.reader = owner, reader

    def follows(self, view: View) -> bool:
        """Returns whether both do."""
        return self.owner.follows(view) and self.reader.follows(view)

    def project(self, memory: Tensor, positions: Positions) -> State:
        """Returns the owner's projection."""
        return self.owner.project(memory, positions)

    def attend(self, query: Tensor, state: State, scope: AttentionContext) -> Tensor:
        """Returns the reader's output, after the owner has computed its own."""
        self.owner.attend(query, state, AttentionContext(scope.query, scope.key, view=scope.view))
        return self.reader.attend(query, state, scope)


class RootMeanSquare(nn.RMSNorm, Norm):
    """PyTorch's own norm of root mean squares."""


class Function(Sublayer):
    """A sublayer without dropout that keeps, call by call, its inputs (`given`) and `tokens` (`taken`)."""

    def __init__(self, compute: Callable[[Tensor], Tensor], real: Tensor) -> None:
        super().__init__(lambda hidden, _: compute(hidden), real=real)
        self.compute, self.given, self.taken = compute, list[Tensor](), list[Tensor | None]()

    def __call__(self, hidden: Tensor, tokens: Tensor | None = None) -> Tensor:
        """Records the input and returns the output, under autocast in its type, as linear maps do."""
        self.given.append(hidden)
        self.taken.append(tokens)
        mixed = torch.is_autocast_enabled("cpu")
        output = self.compute(hidden).to(torch.get_autocast_dtype("cpu") if mixed else hidden.dtype)
        if tokens is None or self.real is None:
            return output
        return output.masked_fill(~(tokens & self.real)[..., None], 0.0)

    def added(self, x: Tensor, hidden: Tensor, tokens: Tensor | None = None) -> Tensor:
        """Returns `x` and what it computes, added."""
        return x + self(hidden, tokens)


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


def require_gradients(module: nn.Module, output: Tensor, *, everywhere: bool = True) -> None:
    """Requires finite gradients: of every parameter that is trained, or of those that take part at all."""
    found = gradients(module, output)
    for name, parameter in module.named_parameters():
        if parameter.requires_grad and everywhere:
            require.that(name in found, f"{name} gets no gradient: it takes no part in the output")
    for name, gradient in found.items():
        require.finite(gradient, f"the gradient of {name}")
