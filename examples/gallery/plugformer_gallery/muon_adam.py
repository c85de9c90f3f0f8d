"""Muon and Adam in one optimizer, each with a learning rate of its own."""

from collections.abc import Iterable
from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from plugformer.interfaces import Optimizer
from plugformer.optimizer import JoinedOptimizer

Rate = Annotated[float, Field(gt=0)]
OUTER = {"embedding", "position", "head"}


class MuonAdam(Optimizer):
    """Moves hidden matrices by the orthogonal factor of their momentum, and all other parameters by Adam.

    Muon, Jordan et al. 2024: https://kellerjordan.github.io/posts/muon/. The factor is exact, by a singular
    value decomposition. Updates of matrices have singular values of `lr`, whatever their size, so that both
    rates are chosen separately; the schedule multiplies both.

    Args:
        lr: Learning rate of hidden matrices.
        adam_lr: Learning rate of all other parameters: embeddings, positions, the head and vectors.
        momentum: Decay rate of the momentum.
    """

    def __init__(
        self, *, lr: Rate = 0.02, adam_lr: Rate = 0.001, momentum: Annotated[float, Field(ge=0, lt=1)] = 0.95
    ) -> None:
        self.lr = lr
        self.adam_lr = adam_lr
        self.momentum = momentum

    def build(self, parameters: Iterable[tuple[str, nn.Parameter]]) -> torch.optim.Optimizer:
        """Returns both optimizers as one; logs have the rate of the second under its name, `adam`."""
        trained = [(path, parameter) for path, parameter in parameters if parameter.requires_grad]
        hidden = [p for path, p in trained if p.ndim == 2 and not OUTER & set(path.split("."))]
        others = [p for path, p in trained if p.ndim != 2 or OUTER & set(path.split("."))]
        muon = SpectralDescent([{"params": hidden}], {"lr": self.lr, "momentum": self.momentum})
        return JoinedOptimizer(
            [muon, torch.optim.Adam([{"params": others, "name": "adam"}], lr=self.adam_lr)]
        )


class SpectralDescent(torch.optim.Optimizer):
    """Steps of equal length along all singular directions of the momentum."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Makes an update; there is no closure."""
        del closure
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    state = self.state[parameter]
                    if not state:
                        state["momentum"] = torch.zeros_like(parameter)
                    momentum = state["momentum"].lerp_(parameter.grad, 1 - group["momentum"])
                    parameter.sub_(orthogonal_factor(momentum), alpha=group["lr"])


def orthogonal_factor(matrix: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows columns"]:
    """Returns U V^T of a matrix U S V^T, without the directions in which it is zero."""
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    nonzero = values > values.max() * torch.finfo(matrix.dtype).eps
    return (left * nonzero) @ right
