"""Muon, which makes the updates of matrices orthogonal."""

from collections.abc import Iterable
from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from plugformer.errors import ConfigurationError
from plugformer.interfaces import Optimizer
from plugformer_blocks import JoinedOptimizer
from plugformer_plugins.optimizer.adam import AdamW, Betas, DecayRate, Epsilon, LearningRate

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the odd polynomial of degree 5 that brings singular values near 1: the first source of `Muon`."""

OUTER = {"embedding", "position", "head"}
"""Parts of a model whose matrices are tables of vectors, or maps to outputs."""


class Muon(Optimizer):
    """Moves hidden matrices by an orthogonal matrix near their momentum; AdamW moves all other parameters.

    Muon, Jordan et al. 2024: https://kellerjordan.github.io/posts/muon/. Updates of matrices are scaled as in
    Muon is Scalable for LLM Training, Liu et al. 2025, section 2.2: https://arxiv.org/abs/2502.16982. They
    are then about as large as AdamW's, so that both have the same learning rate and weight decay. A matrix
    is hidden if no part of its path is `embedding`, `position` or `head`. Matrices of experts are stacked:
    AdamW moves them.

    Args:
        momentum: Decay rate of the momentum of matrices; the update looks ahead as Nesterov's does.
        betas: Decay rates of AdamW's moments.
        epsilon: Added to the root of AdamW's second moment.
        weight_decay: Share of a matrix taken off at each update, times the learning rate.
        iterations: Newton-Schulz iterations, each of which brings a matrix nearer to an orthogonal one.
    """

    def __init__(
        self,
        *,
        lr: LearningRate = 0.001,
        momentum: DecayRate = 0.95,
        betas: Betas = (0.9, 0.95),
        epsilon: Epsilon = 1e-8,
        weight_decay: Annotated[float, Field(ge=0)] = 0.1,
        iterations: Annotated[int, Field(ge=1, le=20)] = 5,
    ) -> None:
        self.lr = lr
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.iterations = iterations
        self.adam = AdamW(lr=lr, betas=betas, epsilon=epsilon, weight_decay=weight_decay)

    def build(self, parameters: Iterable[tuple[str, nn.Parameter]]) -> torch.optim.Optimizer:
        """Returns the optimizer with three groups: hidden matrices, other matrices, and vectors.

        Raises:
            ConfigurationError: Processes hold shards of matrices, which cannot be made orthogonal.
        """
        hidden: list[nn.Parameter] = []
        others: list[tuple[str, nn.Parameter]] = []
        for name, parameter in parameters:
            if isinstance(parameter, DTensor):
                message = "muon needs whole matrices, of which processes hold shards: set it to false"
                raise ConfigurationError(f"training.shard: {message}, or choose another optimizer")
            if parameter.ndim != 2 or OUTER & set(name.split(".")):
                others.append((name, parameter))
            elif parameter.requires_grad:
                hidden.append(parameter)
        options = {"lr": self.lr, "momentum": self.momentum, "weight_decay": self.weight_decay}
        matrices = OrthogonalOptimizer([{"params": hidden}], options | {"iterations": self.iterations})
        return JoinedOptimizer([matrices, self.adam.build(others)])


class OrthogonalOptimizer(torch.optim.Optimizer):
    """Muon's updates of matrices."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Makes an update; there is no closure."""
        del closure
        for group in self.param_groups:
            for parameter in group["params"]:
                if (gradient := parameter.grad) is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["momentum"] = torch.zeros_like(parameter)
                momentum = state["momentum"].lerp_(gradient, 1 - group["momentum"])
                ahead = gradient.lerp(momentum, group["momentum"])
                direction = orthogonalized(ahead, group["iterations"])
                scale = 0.2 * max(parameter.shape) ** 0.5  # section 2.2 of the second source of `Muon`
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.add_(direction, alpha=-group["lr"] * scale)


def orthogonalized(matrix: Float[Tensor, "rows columns"], iterations: int) -> Float[Tensor, "rows columns"]:
    """Returns nearly the orthogonal factor U V^T of a matrix U S V^T: singular values between 0.7 and 1.2."""
    a, b, c = COEFFICIENTS
    is_tall = matrix.shape[0] > matrix.shape[1]
    wide: Tensor = matrix.T if is_tall else matrix
    wide = wide / wide.norm().clamp(min=1e-7)  # so that no singular value is above 1
    for _ in range(iterations):
        squared = wide @ wide.T
        wide = a * wide + (b * squared + c * squared @ squared) @ wide
    return wide.T if is_tall else wide
