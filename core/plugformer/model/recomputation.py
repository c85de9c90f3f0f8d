"""Gradient checkpointing: what a layer computes is forgotten, and computed again for its gradients."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

Hidden = Float[Tensor, "batch length width"]


def wanted(stack: nn.Module, *, recompute: bool) -> bool:
    """Returns whether a stack's layers are to be computed twice: only where gradients will be."""
    return recompute and stack.training and torch.is_grad_enabled()


def recomputed(layer: Callable[..., Hidden], x: Hidden, *further: object) -> Hidden:
    """Returns `layer(x, *further)` of which nothing but `x` is kept for the gradients.

    Chen et al. 2016, section 4: https://arxiv.org/abs/1604.06174. Random numbers are drawn as they were.

    Args:
        layer: Computes the same whenever it is called, and leaves nothing behind that the next call finds.
        x: The hidden states before it.
        further: Its other arguments. What they compute lazily must be there already if it needs gradients
            (`Scope.prepare`): what is computed within a layer is computed again within its backward pass.
    """
    output: Hidden = checkpoint(layer, x, *further, use_reentrant=False)
    return output
