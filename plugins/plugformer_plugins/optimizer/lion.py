"""Lion, which steps by the sign of a momentum."""

from collections.abc import Iterable
from typing import Annotated

import torch
from pydantic import Field
from torch import nn

from plugformer.interfaces import Optimizer
from plugformer_plugins.optimizer.adam import Betas, LearningRate


class Lion(Optimizer):
    """Moves each number by the learning rate, in the direction of a momentum's sign.

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
        trained = [parameter for _, parameter in parameters if parameter.requires_grad]
        return SignOptimizer(
            [
                {"params": [p for p in trained if p.ndim >= 2], "weight_decay": self.weight_decay},
                {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
            ],
            {"lr": self.lr, "betas": self.betas},
        )


class SignOptimizer(torch.optim.Optimizer):
    """Lion's updates: w -= lr (sign(b1 m + (1 - b1) g) + decay w), then m = b2 m + (1 - b2) g."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Makes an update; there is no closure."""
        del closure
        for group in self.param_groups:
            fast, slow = group["betas"]
            for parameter in group["params"]:
                if (gradient := parameter.grad) is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["momentum"] = torch.zeros_like(parameter)
                momentum = state["momentum"]
                direction = (fast * momentum).add_(gradient, alpha=1 - fast).sign_()
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.add_(direction, alpha=-group["lr"])
                momentum.mul_(slow).add_(gradient, alpha=1 - slow)
