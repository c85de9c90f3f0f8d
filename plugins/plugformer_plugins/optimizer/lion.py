"""Lion, which steps by the sign of a momentum."""

from collections.abc import Iterable
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from plugformer.interfaces import Optimizer, Updates
from plugformer_plugins.optimizer.adam import Betas, LearningRate, decaying_groups


class Lion(Optimizer):
    """Steps by the sign of a momentum, with decoupled weight decay.

    Moves each number by the learning rate, in the direction of a momentum's sign.

    Symbolic Discovery of Optimization Algorithms, Chen et al. 2023, algorithm 2:
    https://arxiv.org/abs/2302.06675. Its section 5 advises a learning rate 3 to 10 times smaller than AdamW's
    and a weight decay that is larger by the same factor. As with `adamw`, only matrices decay.

    Args:
        betas: Weight of the momentum in the direction, and decay rate of the momentum.
        weight_decay: Share of a matrix taken off at each update, times the learning rate.
    """

    def __init__(
        self,
        *,
        lr: LearningRate = 0.0001,
        betas: Betas = (0.9, 0.99),
        weight_decay: Annotated[float, Field(ge=0)] = 0.1,
    ) -> None:
        self.lr = lr
        self.betas = betas
        self.weight_decay = weight_decay

    def build(self, parameters: Iterable[tuple[str, nn.Parameter]]) -> torch.optim.Optimizer:
        """Returns the optimizer with two groups: what decays, and what does not."""
        groups = decaying_groups(parameters, self.weight_decay)
        return SignOptimizer(groups, {"lr": self.lr, "betas": self.betas})

    def updates(self, path: str, parameter: Tensor) -> Updates:
        """Returns that each number moves by the learning rate."""
        return Updates.ADAPTIVE


class SignOptimizer(torch.optim.Optimizer):
    """Lion's updates: w -= lr (sign(b1 m + (1 - b1) g) + decay w), then m = b2 m + (1 - b2) g."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Makes an update; there is no closure."""
        del closure
        for group in self.param_groups:
            fast, slow = group["betas"]
            moved = [each for each in group["params"] if each.grad is not None]
            if not moved:
                continue
            parameters = [_own(parameter) for parameter in moved]
            gradients = [_own(each.grad) for each in moved]
            momenta = [_own(self._momentum(parameter)) for parameter in moved]
            directions = torch._foreach_mul(momenta, fast)
            torch._foreach_add_(directions, gradients, alpha=1 - fast)
            torch._foreach_sign_(directions)
            torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_add_(parameters, directions, alpha=-group["lr"])
            torch._foreach_mul_(momenta, slow)
            torch._foreach_add_(momenta, gradients, alpha=1 - slow)

    def _momentum(self, parameter: nn.Parameter) -> Tensor:
        state = self.state[parameter]
        if not state:
            state["momentum"] = torch.zeros_like(parameter)
        momentum: Tensor = state["momentum"]
        return momentum


def _own(tensor: Tensor) -> Tensor:
    """Returns the tensor, or the shard of it that this process has."""
    own: Tensor = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return own
