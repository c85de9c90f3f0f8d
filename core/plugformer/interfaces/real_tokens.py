"""Taking the padding out of a batch."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor


def take_tokens(
    x: Float[Tensor, "positions width"], rows: Int[Tensor, " tokens"]
) -> Float[Tensor, "tokens width"]:
    """Returns some rows of `x`, none of them twice, which makes the gradient cheap: each has one place."""
    taken: Tensor = _Taken.apply(x, rows)
    return taken


class _Taken(torch.autograd.Function):
    """`index_select`, whose own gradient would add up what falls on one row."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, rows: Tensor) -> Tensor:
        return x.index_select(0, rows)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:  # noqa: ARG004
        ctx.positions = len(inputs[0])
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (rows,) = ctx.saved_tensors
        zeros = gradient.new_zeros(ctx.positions, *gradient.shape[1:])
        return zeros.index_copy(0, rows, gradient), None
