"""Padded batches, and small encodings, observers, norms and sublayers with which components are tried."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from plugformer.interfaces import (
    Attention,
    Context,
    Norm,
    PositionalEncoding,
    Positions,
    Sublayer,
    View,
)
from plugformer.interfaces.context import State
from plugformer_testing import require

Module = TypeVar("Module", bound=nn.Module)


@dataclass(frozen=True)
class PaddedBatch:
    """The rows of a batch, drawn with x for a real token and . for padding, all of the same length."""

    rows: tuple[str, ...]

    @property
    def mask(self) -> Bool[Tensor, "batch length"]:
        """True for real tokens, False for padding."""
        return torch.tensor([[mark == "x" for mark in row] for row in self.rows])

    def at(self, encoding: PositionalEncoding, start: int = 0) -> Positions:
        """Returns the positions of the tokens, the first of which is at `start`."""
        mask = self.mask
        return Positions.of(mask.shape[1], encoding, None if mask.all() else mask, start=start)


def full(batch: int, length: int) -> PaddedBatch:
    """Returns a batch without padding."""
    return PaddedBatch(("x" * length,) * batch)


FULL = (full(1, 1), full(1, 2), full(2, 7))  # without padding
PADDED = (
    PaddedBatch(("xx", "x.")),
    PaddedBatch(("xxxxx", "xxx..", "x....")),
    PaddedBatch(("x...", "xxx.", "xx..")),
)

BATCHES = (*FULL[:2], PADDED[0], FULL[2], *PADDED[1:])  # all, the smallest first


@dataclass(frozen=True)
class Pieces:
    """Sequences that come in pieces, as in decoding; each piece is padded on the right."""

    pieces: tuple[tuple[str, ...], ...]

    @property
    def whole(self) -> PaddedBatch:
        """The sequences at once."""
        lengths = [sum(row.count("x") for row in rows) for rows in zip(*self.pieces, strict=True)]
        return PaddedBatch(tuple("x" * length + "." * (max(lengths) - length) for length in lengths))

    def __iter__(self) -> "Iterator[tuple[Bool[Tensor, 'rows new'], Int[Tensor, 'rows new']]]":
        """Yields the mask of each piece, and the places of its tokens in the whole; at padding any."""
        done, last = torch.zeros(len(self.pieces[0]), 1, dtype=torch.long), self.whole.mask.shape[1] - 1
        for rows in self.pieces:
            mask = PaddedBatch(rows).mask
            yield mask, (done + torch.arange(mask.shape[1])).clamp(max=last)
            done = done + mask.sum(dim=1, keepdim=True)


_STEP = ("x", "x", "x")
PIECES = (
    *(Pieces((("x",),) * 2), Pieces((("xx",), ("x",), ("xx",)))),
    Pieces((("xx", "x."), ("x", "x"))),
    Pieces((("xxx", "x..", "xx."), _STEP, _STEP)),
    Pieces((("xxx", "xx.", "xx."), ("x..", "xxx", "xx."), _STEP, ("x.", "xx", ".."), _STEP)),
)
"""Single tokens and longer pieces, behind beginnings of the same length and of different length."""


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
    """An attention that reads what another (`owner`), in a layer below, has cached."""

    def __init__(self, owner: Attention, reader: Attention) -> None:
        super().__init__()
        self.owner, self.reader = owner, reader

    def follows(self, view: View) -> bool:
        """Returns whether both do."""
        return self.owner.follows(view) and self.reader.follows(view)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Returns the reader's output, after the owner has computed its own."""
        state = context.state or State(State())
        self.owner(x, replace(context, state=state.owner, observer=None))
        output: Tensor = self.reader(x, replace(context, state=state))
        return output


class RootMeanSquare(nn.RMSNorm, Norm):
    """PyTorch's own norm of root mean squares."""


class Function(Sublayer):
    """A sublayer without dropout that keeps its inputs (`given`), and `tokens` and `most` (`taken`)."""

    def __init__(self, compute: Callable[[Tensor], Tensor], real: Tensor | None = None) -> None:
        super().__init__(self._computed, real=real)
        self.compute, self.given = compute, list[Tensor]()
        self.taken = list[tuple[Tensor | None, int | None]]()

    def _computed(self, hidden: Tensor, tokens: Tensor | None, most: int | None) -> Tensor:
        """Records the call and returns the output, under autocast in its format, as linear maps do."""
        self.given.append(hidden)
        self.taken.append((tokens, most))
        mixed = torch.is_autocast_enabled("cpu")
        output = self.compute(hidden).to(torch.get_autocast_dtype("cpu") if mixed else hidden.dtype)
        return output if tokens is None else output.masked_fill(~tokens[..., None], 0.0)


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
