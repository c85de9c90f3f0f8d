"""Muon, which makes the updates of matrices orthogonal."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from plugformer.errors import ConfigurationError
from plugformer.interfaces import Optimizer, Updates
from plugformer.optimizer import JoinedOptimizer
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
                message = "muon needs whole matrices, and processes hold shards of them: set it to false"
                raise ConfigurationError(f"training.shard: {message}, or choose another optimizer")
            if self.updates(name, parameter) is Updates.ADAPTIVE:
                others.append((name, parameter))
            elif parameter.requires_grad:
                hidden.append(parameter)
        options = {"lr": self.lr, "momentum": self.momentum, "weight_decay": self.weight_decay}
        matrices = OrthogonalOptimizer([{"params": hidden}], options | {"iterations": self.iterations})
        return JoinedOptimizer([matrices, self.adam.build(others)])

    def updates(self, path: str, parameter: Tensor) -> Updates:
        """Returns that hidden matrices move by an orthogonal one, and all others as AdamW moves them."""
        hidden = parameter.ndim == 2 and not OUTER & set(path.split("."))
        return Updates.ORTHOGONAL if hidden else Updates.ADAPTIVE


class OrthogonalOptimizer(torch.optim.Optimizer):
    """Muon's updates of matrices."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Makes an update; there is no closure."""
        del closure
        for group in self.param_groups:
            moved = [parameter for parameter in group["params"] if parameter.grad is not None]
            if not moved:
                continue
            ahead = self._ahead(moved, group["momentum"])
            torch._foreach_mul_(moved, 1 - group["lr"] * group["weight_decay"])
            alike: dict[torch.Size, list[int]] = defaultdict(list)
            for number, parameter in enumerate(moved):
                alike[parameter.shape].append(number)
            for shape, numbers in alike.items():
                matrices = torch.stack([ahead[number] for number in numbers])
                directions = orthogonalized(matrices, group["iterations"]).unbind()
                scale = 0.2 * max(shape) ** 0.5  # section 2.2 of the second source of `Muon`
                parameters = [moved[number] for number in numbers]
                torch._foreach_add_(parameters, directions, alpha=-group["lr"] * scale)

    def _ahead(self, parameters: Sequence[nn.Parameter], rate: float) -> Sequence[Tensor]:
        """Adds gradients to their momenta, and returns where these would be an update later."""
        for parameter in parameters:
            if not self.state[parameter]:
                self.state[parameter]["momentum"] = torch.zeros_like(parameter)
        momenta = [self.state[parameter]["momentum"] for parameter in parameters]
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        torch._foreach_lerp_(momenta, gradients, 1 - rate)
        return torch._foreach_lerp(gradients, momenta, rate)


def orthogonalized(
    matrices: Float[Tensor, "matrices rows columns"], iterations: int
) -> Float[Tensor, "matrices rows columns"]:
    """Returns nearly the orthogonal factor U V^T of each matrix U S V^T: singular values between 0.7 and 1.2.

    Matrices of one shape are multiplied together: most are too small to keep a device busy alone. As in the
    code of the first source of `Muon`, a GPU computes in bfloat16: https://github.com/KellerJordan/Muon.
    """
    a, b, c = COEFFICIENTS
    is_tall = matrices.shape[1] > matrices.shape[2]
    wide: Tensor = matrices.mT if is_tall else matrices
    wide = wide / wide.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)  # so that no singular value is above 1
    wide = wide.to(torch.bfloat16 if matrices.is_cuda else matrices.dtype)
    for _ in range(iterations):
        squared = wide @ wide.mT
        wide = torch.baddbmm(wide, torch.baddbmm(squared, squared, squared, beta=b, alpha=c), wide, beta=a)
    return (wide.mT if is_tall else wide).to(matrices.dtype)
