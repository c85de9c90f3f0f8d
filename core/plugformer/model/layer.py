"""A layer: sublayers and the residual connection that joins them, their dropout, and the states they keep."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import dropout
from torch.utils.checkpoint import checkpoint

from plugformer.errors import RegistryError
from plugformer.interfaces import Attention, Context, FeedForward, Residual, Sublayer
from plugformer.interfaces.context import State
from plugformer.interfaces.layer import Stream

LEVELS = 2**16


class Dropout(nn.Module):
    """Zeroes a share `rate` of elements at random in training, and scales the others so that the mean stays.

    Srivastava et al. 2014, section 4: https://jmlr.org/papers/v15/srivastava14a.html. On a CPU, where random
    numbers are slow, one of 64 bits decides four elements, and the rate is rounded to 1/65,536.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Returns `x` as it is in evaluation mode, else with elements dropped."""
        if not self.training or self.rate == 0:
            return x
        if _has_fused_kernel(x):
            return dropout(x, self.rate)
        kept, scale = self._kept(x)
        return torch.mul(x, kept.mul_(scale))

    def added(self, x: Float[Tensor, "*shape"], y: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Returns `x + self(y)`, in one pass where that is possible."""
        if not self.training or self.rate == 0 or _has_fused_kernel(x):
            return torch.add(x, self(y) if self.training else y)
        kept, scale = self._kept(y)
        return torch.addcmul(x, y, kept, value=scale)

    def _kept(self, x: Float[Tensor, "*shape"]) -> tuple[Float[Tensor, "*shape"], float]:
        """Returns a mask of ones and zeros, and the scale of the elements that are kept."""
        dropped = min(round(self.rate * LEVELS), LEVELS - 1)
        numbers = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        levels = numbers.view(torch.int16)[: x.numel()].view(x.shape)
        kept = torch.ge(levels, dropped - LEVELS // 2, out=torch.empty(x.shape, dtype=x.dtype))
        return kept, LEVELS / (LEVELS - dropped)


def _has_fused_kernel(x: Tensor) -> bool:
    return x.device.type != "cpu" or torch.compiler.is_compiling()


LayerStates = dict[str, State]
"""What the sublayers of a layer keep, by their names; and which tokens a layer takes, as `tokens`."""


class Layer(nn.Module):
    """Sublayers, and the residual connection that joins them.

    Args:
        sublayers: By name, in the order of computation, such as `attention`, `cross_attention` (which reads
            another stack) and `feed_forward`.
        residual: The residual connection.
        dropout: The rate on each sublayer's output.
    """

    def __init__(self, *, sublayers: Mapping[str, nn.Module], residual: Residual, dropout: float) -> None:
        super().__init__()
        self.compiled: Callable[..., Tensor] | None = None  # of training; evaluation computes uncompiled
        for name, sublayer in sublayers.items():
            self.add_module(name, sublayer)
        self.names = tuple(sublayers)
        self.residual = residual
        self.dropout = Dropout(dropout)

    @property
    def reads_layers(self) -> dict[str, int]:
        """The layers below whose states its attentions read, by the attention's name."""
        layers = {name: getattr(part, "reads_layer", None) for name, part in self.parts.items()}
        return {name: layer for name, layer in layers.items() if layer is not None}

    @property
    def parts(self) -> dict[str, Attention | FeedForward]:
        """The sublayers' components by name, in the order of computation."""
        return {name: getattr(self, name) for name in self.names}

    def forward(
        self,
        x: Stream,
        context: Context,
        cross: Context | None,
        states: LayerStates | None,
        *,
        recompute: bool = False,
    ) -> Stream:
        """Returns the hidden states after this layer.

        Args:
            x: Those before it.
            context: Of the tokens themselves.
            cross: From the tokens to those of the other stack, if there is one to read.
            states: What the sublayers keep, if they keep anything.
            recompute: Whether to save only these arguments, and compute again in the backward pass.
        """
        plain = context.observed or (cross is not None and cross.observed)
        compiled = self.compiled if self.training and not plain else None
        compute, arguments = compiled or Layer.compute, (self, x, context, cross, states)
        if recompute:  # inside the layer: its hooks run once, and what they change holds for both passes
            return cast("Tensor", checkpoint(compute, *arguments, use_reentrant=False))
        return compute(*arguments)

    def compute(
        self, x: Tensor, context: Context, cross: Context | None, states: LayerStates | None
    ) -> Tensor:
        """Computes `forward` without compilation."""
        real = None
        if self.residual.takes != "all":
            real = torch.ones_like(x[..., 0], dtype=torch.bool) if context.real is None else context.real
        seen = {name: cross if name == "cross_attention" else context for name in self.names}
        sublayers = {
            name: Sublayer(
                partial(self._sublayer, name, cast("Context", seen[name]), states), self.dropout, real
            )
            for name in self.names
        }
        return cast("Tensor", self.residual(x, sublayers))

    def _sublayer(
        self,
        name: str,
        context: Context,
        states: LayerStates | None,
        hidden: Tensor,
        tokens: Tensor | None,
        most: int | None,
    ) -> Tensor:
        """Returns the output of a sublayer, zero at tokens that are not among `tokens`."""
        part = getattr(self, name)
        context.state = None if states is None else states[name]
        if tokens is not None and self.residual.takes == "all":
            raise RegistryError(f"{type(self.residual).__name__} takes some tokens only; set its `takes`")
        if tokens is not None and context.real is not None and not context.cross:
            tokens = tokens & context.real
        if context.cross:
            rows = (hidden if context.memory is None else context.memory).shape[0]
            output = part(hidden.reshape(rows, -1, hidden.shape[-1]), context).reshape(hidden.shape)
        elif tokens is None:
            output = part(hidden, context)
        elif most is not None and context.slots is None:
            return gathered(part, hidden, context, tokens, most)
        else:
            kept = states["tokens"] if states is not None and isinstance(part, Attention) else None
            output = part(hidden, context.only(tokens, kept))
        return cast("Tensor", output if tokens is None else output.masked_fill(~tokens[..., None], 0.0))


def gathered(
    part: nn.Module, hidden: Stream, context: Context, tokens: Bool[Tensor, "batch length"], most: int
) -> Stream:
    """Gathers some tokens, in order, computes a sublayer, and scatters its output; zeros elsewhere."""
    columns = (~tokens).long().argsort(dim=1, stable=True)[:, :most]
    at, places = context.query, columns[..., None].expand(-1, -1, hidden.shape[-1])
    taken = replace(
        at,
        index=at.index.expand_as(tokens).gather(1, columns),
        mask=tokens.gather(1, columns),
        start=None,
        marks={name: mark.gather(1, columns) for name, mark in at.marks.items()},
    )
    output = part(hidden.gather(1, places), replace(context, query=taken, key=taken))
    output = output.masked_fill(~cast("Tensor", taken.mask)[..., None], 0.0)
    return hidden.new_zeros(hidden.shape).to(output.dtype).scatter(1, places, output)


def layer_states(layers: Sequence[Layer]) -> list[LayerStates]:
    """Returns empty states of the layers' sublayers, in the order of computation."""
    made: list[LayerStates] = []
    for layer in layers:
        states = {name: State() for name in (*layer.names, "tokens")}
        for name, below in layer.reads_layers.items():
            states[name] = State(made[below][name])
        made.append(states)
    return made
